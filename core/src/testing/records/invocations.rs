//! The invocation log's part of the contract of `Records`.

use super::*;

pub(super) async fn invocations(records: &dyn Records) {
    let (ours, theirs, uid) = (namespace(), namespace(), Uuid::now_v7());
    records.insert_invocations(&[]).await.expect("no rows");
    let one = row(ours, "f", uid, 1);
    assert!(matches!(records.invocation(ours, one.id).await, Err(Error::NotFound { .. })));
    records.insert_invocations(std::slice::from_ref(&one)).await.expect("insert");
    assert_eq!(records.invocation(ours, one.id).await.expect("get"), one);
    assert!(matches!(records.invocation(theirs, one.id).await, Err(Error::NotFound { .. })), "another namespace's");
    records.insert_invocations(&[row(theirs, "f", Uuid::now_v7(), 1)]).await.expect("insert");
    assert!(matches!(records.invocation(theirs, one.id).await, Err(Error::NotFound { .. })), "another namespace's");

    // The same id again, also with other contents, also twice in one batch, among new ones.
    let changed = Invocation { status: 500, outcome: Outcome::Internal, started_at: at(9), ..one.clone() };
    let two = row(ours, "f", uid, 2);
    records.insert_invocations(&[changed, two.clone(), two.clone()]).await.expect("insert again");
    assert_eq!(records.invocation(ours, one.id).await.expect("get"), one, "adding an id again changes nothing");
    let listed = records.invocations(ours, InvocationFilter::default(), PageRequest::default()).await.expect("list");
    assert_eq!(listed.items, [two, one], "newest first");
    assert_eq!(listed.next, None);

    // Many at once by many.
    let batches: Vec<Vec<_>> =
        (0..6).map(|b| (0..150).map(|i| row(ours, "g", uid, 100 + b * 200 + i)).collect()).collect();
    for inserted in futures::future::join_all(batches.iter().map(|rows| records.insert_invocations(rows))).await {
        inserted.expect("insert");
    }
    let filter = InvocationFilter { function: Some(name("g")), ..InvocationFilter::default() };
    let mut expected = batches.concat();
    expected.sort_by_key(|row| std::cmp::Reverse((row.started_at, row.id)));
    assert!(list_all(records, ours, filter, 77).await == expected, "rows of several batches");
}

pub(super) async fn list_all(
    records: &dyn Records,
    namespace: Namespace,
    filter: InvocationFilter,
    limit: u32,
) -> Vec<Invocation> {
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = records.invocations(namespace, filter.clone(), page(limit, cursor)).await.expect("list");
        assert!(page.items.len() <= limit as usize);
        listed.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return listed;
        }
    }
}

pub(super) async fn filters_and_pages(records: &dyn Records) {
    let (ours, theirs) = (namespace(), namespace());
    let uids = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    let mut rows = Vec::new();
    for i in 0..120u64 {
        // Many of one instant; two functions of the name `f`, one after the other.
        let (function, uid) = match i % 3 {
            0 => ("g", uids[0]),
            _ => ("f", uids[1 + (i > 60) as usize]),
        };
        let outcome = if i % 10 == 0 { Outcome::FunctionTrapped } else { Outcome::Ok };
        rows.push(Invocation { outcome, ..row(ours, function, uid, i / 7) });
        rows.push(row(theirs, function, Uuid::now_v7(), i / 7));
    }
    records.insert_invocations(&rows).await.expect("insert");
    rows.retain(|row| row.namespace == ours);
    rows.sort_by_key(|row| std::cmp::Reverse((row.started_at, row.id)));
    let none = InvocationFilter::default();
    let half = at(5) + Duration::from_nanos(1);
    let filters = [
        none.clone(),
        InvocationFilter { function: Some(name("f")), ..none.clone() },
        InvocationFilter { function: Some(name("nobody")), ..none.clone() },
        InvocationFilter { outcome: Some(Outcome::FunctionTrapped), ..none.clone() },
        InvocationFilter { outcome: Some(Outcome::Internal), ..none.clone() },
        InvocationFilter { from: Some(at(5)), to: Some(at(9)), ..none.clone() },
        InvocationFilter { from: Some(half), ..none.clone() },
        InvocationFilter { to: Some(half), ..none.clone() },
        InvocationFilter { from: Some(Timestamp::MIN), to: Some(Timestamp::MAX), ..none.clone() },
        InvocationFilter { from: Some(at(9)), to: Some(at(5)), ..none.clone() },
        InvocationFilter { function: Some(name("f")), outcome: Some(Outcome::Ok), from: Some(at(3)), to: Some(at(12)) },
    ];
    for filter in filters {
        let wanted = |row: &&Invocation| {
            filter.function.as_ref().is_none_or(|function| *function == row.function)
                && filter.outcome.is_none_or(|outcome| outcome == row.outcome)
                && filter.from.is_none_or(|from| row.started_at >= from)
                && filter.to.is_none_or(|to| row.started_at < to)
        };
        let expected: Vec<_> = rows.iter().filter(wanted).cloned().collect();
        for limit in [1, 7, 500] {
            let listed = list_all(records, ours, filter.clone(), limit).await;
            assert!(listed == expected, "{filter:?} in pages of {limit}: {} rows of {}", listed.len(), expected.len());
        }
    }
    // New rows don't move a cursor.
    let first = records.invocations(ours, none.clone(), page(10, None)).await.expect("list");
    records.insert_invocations(&[row(ours, "f", uids[2], 1000)]).await.expect("insert");
    let second = records.invocations(ours, none.clone(), page(10, first.next)).await.expect("list");
    assert_eq!(second.items, rows[10..20]);
    for bad in ["", "zz", "69", "6900", "7600000001", &"0".repeat(100_000)] {
        let list = records.invocations(ours, none.clone(), page(10, Some(bad.to_owned()))).await;
        assert!(matches!(list, Err(Error::InvalidCursor)), "the cursor {bad:?}: {list:?}");
    }
}

pub(super) async fn prunes(records: &dyn Records) {
    let (ours, theirs) = (namespace(), namespace());
    records.prune_invocations(Timestamp::MAX, 0).await.expect("prune all");
    let (old, new) = (Uuid::now_v7(), Uuid::now_v7());
    let mut rows: Vec<_> =
        (0..60).map(|i| row(if i % 2 == 0 { ours } else { theirs }, "f", if i < 10 { old } else { new }, i)).collect();
    records.insert_invocations(&rows).await.expect("insert");
    assert_eq!(records.prune_invocations(at(0), 1000).await.expect("prune"), 0, "nothing is too old or too many");
    assert_eq!(records.prune_invocations(at(10), 1000).await.expect("prune"), 10, "those before");
    assert_eq!(
        records.prune_invocations(at(10), 20).await.expect("prune"),
        30,
        "the oldest beyond what is kept, of all namespaces"
    );
    let mut left = list_all(records, ours, InvocationFilter::default(), 500).await;
    left.extend(list_all(records, theirs, InvocationFilter::default(), 500).await);
    left.sort_by_key(|row| row.started_at);
    assert_eq!(left, rows.split_off(40));
    assert_eq!(
        records.function_uids().await.expect("uids").intersection(&[old, new].into()).collect::<Vec<_>>(),
        [&new],
        "a function without rows"
    );
    // A function whose last row was pruned can be called again.
    let again = row(ours, "f", old, 100);
    records.insert_invocations(std::slice::from_ref(&again)).await.expect("insert");
    assert_eq!(records.invocation(ours, again.id).await.expect("get"), again);
    assert_eq!(records.prune_invocations(Timestamp::MAX, 1000).await.expect("prune"), 21);
}
