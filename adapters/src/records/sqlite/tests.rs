use std::sync::Arc;

use sless_core::{FunctionName, Outcome, Tenant, TriggerKind};

use super::*;
use crate::sqlite::Durability;

async fn open(dir: &std::path::Path) -> (Database, SqliteRecords) {
    let state = Database::open(&dir.join("state.db"), crate::embedded::STATE, Durability::Process).await.unwrap();
    let rows = Database::open(&dir.join("rows.db"), crate::embedded::INVOCATIONS, Durability::Process).await.unwrap();
    (rows.clone(), SqliteRecords::new(state, rows))
}

fn row(namespace: Namespace, uid: Uuid, i: u64) -> Invocation {
    Invocation {
        id: InvocationId::now(),
        namespace,
        function: "hello".parse().unwrap(),
        function_uid: uid,
        version: VersionNumber(1),
        trigger: TriggerKind::Http,
        request_id: None,
        started_at: Timestamp::UNIX_EPOCH + std::time::Duration::from_micros(1_700_000_000_000_000 + i),
        duration_us: 120,
        status: 200,
        outcome: Outcome::Ok,
        cold: Some(sless_core::ColdGrade::Instance),
        cpu_us: 80,
        peak_memory_bytes: 2 << 20,
        bytes_in: 0,
        bytes_out: 13,
        log_tail: String::new(),
        error: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    sless_core::testing::records(&open(dir.path()).await.1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_beside_a_delete_of_its_function_leaves_no_row_without_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let (database, records) = open(dir.path()).await;
    let records = Arc::new(records);
    let namespace = Tenant::from_subject("a").namespace();
    let uid = Uuid::now_v7();
    let inserts = tokio::spawn({
        let records = Arc::clone(&records);
        async move {
            for i in 0..200 {
                records.insert_invocations(&[row(namespace, uid, i)]).await.unwrap();
            }
        }
    });
    while !inserts.is_finished() {
        records.delete_function(uid).await.unwrap();
        records.prune_invocations(Timestamp::MAX, 0).await.unwrap();
    }
    inserts.await.unwrap();
    let lost: i64 =
        sqlx::query_scalar("SELECT count(*) FROM invocations WHERE function_key NOT IN (SELECT key FROM functions)")
            .fetch_one(database.read())
            .await
            .unwrap();
    assert_eq!(lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_by_an_index_and_not_by_looking_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (database, records) = open(dir.path()).await;
    let namespace = Tenant::from_subject("a").namespace();
    records.insert_invocations(&[row(namespace, Uuid::now_v7(), 0)]).await.unwrap();
    for (column, index) in [("namespace_key", "invocations_by_namespace"), ("function_key", "invocations_by_function")]
    {
        let statement = invocations::list_statement(column);
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}")))
                .fetch_all(database.read())
                .await
                .unwrap();
        let plan: Vec<_> = plan.into_iter().map(|step| step.3).collect();
        assert!(
            plan.iter().any(|step| step.contains(&format!("SEARCH invocations USING COVERING INDEX {index}"))),
            "{plan:#?}"
        );
        assert!(!plan.iter().any(|step| step.starts_with("SCAN") && !step.contains("page")), "{plan:#?}");
    }
}

/// Says what a row costs. Run by hand: `cargo test -p sless-adapters -- --ignored --nocapture cost_of_a_row`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures"]
async fn cost_of_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let (_, records) = open(dir.path()).await;
    let namespaces: Vec<_> = (0..5).map(|i| Tenant::from_subject(&i.to_string()).namespace()).collect();
    let uids: Vec<_> = (0..20).map(|_| Uuid::now_v7()).collect();
    const ROWS: u64 = 200_000;
    for batch in [50, 500, 2000] {
        let rows: Vec<_> = (0..ROWS).map(|i| row(namespaces[i as usize % 5], uids[i as usize % 20], i)).collect();
        let (wall, cpu) = (std::time::Instant::now(), cpu_time());
        for rows in rows.chunks(batch) {
            records.insert_invocations(rows).await.unwrap();
        }
        let cpu = cpu_time() - cpu;
        println!(
            "{batch} rows a batch: {:.2} us of processor a row, {:.2} us wall, {:.0} % of a core at 25,000 rows/s",
            cpu.as_secs_f64() * 1e6 / ROWS as f64,
            wall.elapsed().as_secs_f64() * 1e6 / ROWS as f64,
            cpu.as_secs_f64() / ROWS as f64 * 25_000.0 * 100.0,
        );
    }
    let wall = std::time::Instant::now();
    let pruned = records.prune_invocations(Timestamp::UNIX_EPOCH, 100_000).await.unwrap();
    println!("pruned {pruned} rows in {:?}", wall.elapsed());
    let filter =
        InvocationFilter { function: Some("none".parse::<FunctionName>().unwrap()), ..InvocationFilter::default() };
    let wall = std::time::Instant::now();
    records.invocations(namespaces[0], filter, PageRequest::default()).await.unwrap();
    let filter = InvocationFilter { outcome: Some(Outcome::Internal), ..InvocationFilter::default() };
    records.invocations(namespaces[0], filter, PageRequest::default()).await.unwrap();
    println!("two lists without a match in {:?}", wall.elapsed());
}

fn cpu_time() -> std::time::Duration {
    // utime and stime are the 14th and 15th field (proc_pid_stat(5)), in ticks of 10 ms.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    std::time::Duration::from_millis((fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10)
}
