use sless_core::Tenant;
use sless_core::testing::TestClock;

use super::*;
use crate::sqlite::Durability;

async fn open(dir: &std::path::Path, key: u8) -> (Database, SqliteSecrets) {
    let database = Database::open(&dir.join("state.db"), crate::embedded::STATE, Durability::Process).await.unwrap();
    let secrets = SqliteSecrets::new(database.clone(), &[key; 32], Arc::new(TestClock::default())).await.unwrap();
    (database, secrets)
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    sless_core::testing::secrets(&open(dir.path(), 1).await.1).await;
}

#[tokio::test]
async fn no_value_is_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (database, secrets) = open(dir.path(), 1).await;
    let namespace = Tenant::from_subject("a").namespace();
    let value = "correct horse battery staple";
    for i in 0..20 {
        let name = format!("name-{i}").parse().unwrap();
        secrets.put(namespace, &name, SecretValue(format!("{value} {i}"))).await.unwrap();
    }
    let find = |needle: &str| {
        let mut found = 0;
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            found += bytes.windows(needle.len()).filter(|window| *window == needle.as_bytes()).count();
        }
        found
    };
    assert!(find("name-7") > 0, "the search finds what is not encrypted");
    assert_eq!(find(value), 0, "in the log");
    // Copies the log into the database.
    database.close().await;
    assert!(find("name-7") > 0, "the search finds what is not encrypted");
    assert_eq!(find(value), 0, "in the database");
}

#[tokio::test]
async fn a_row_that_was_moved_or_changed_does_not_decrypt() {
    let dir = tempfile::tempdir().unwrap();
    let (database, secrets) = open(dir.path(), 1).await;
    let (ours, theirs) = (Tenant::from_subject("a").namespace(), Tenant::from_subject("b").namespace());
    let (one, two): (SecretName, SecretName) = ("one".parse().unwrap(), "two".parse().unwrap());
    for (namespace, name) in [(ours, &one), (ours, &two), (theirs, &one)] {
        secrets.put(namespace, name, SecretValue(format!("{namespace} {name}"))).await.unwrap();
    }
    let steal = "UPDATE secrets SET (nonce, ciphertext) = (SELECT nonce, ciphertext FROM secrets WHERE namespace = ? AND name = 'one') WHERE namespace = ? AND name = ?";
    for (from, to, name) in [(ours, ours, &two), (ours, theirs, &one)] {
        let mut write = database.write("x").await.unwrap();
        let query = sqlx::query(steal).bind(from.to_string()).bind(to.to_string()).bind(name.as_str());
        assert_eq!(query.execute(&mut *write).await.unwrap().rows_affected(), 1);
        write.commit().await.unwrap();
        assert!(matches!(secrets.get(to, name).await, Err(Error::Corrupt { .. })));
    }
    assert!(secrets.get(ours, &one).await.unwrap().is_some());
    database.close().await;
    let (_database, other_key) = open(dir.path(), 2).await;
    assert!(matches!(other_key.get(ours, &one).await, Err(Error::Corrupt { .. })));
}

#[tokio::test]
async fn the_same_value_is_never_encrypted_the_same_way() {
    let dir = tempfile::tempdir().unwrap();
    let (database, secrets) = open(dir.path(), 1).await;
    let (namespace, name) = (Tenant::from_subject("a").namespace(), "one".parse().unwrap());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        secrets.put(namespace, &name, SecretValue("x".into())).await.unwrap();
        let row: Vec<u8> =
            sqlx::query_scalar("SELECT nonce || ciphertext FROM secrets").fetch_one(database.read()).await.unwrap();
        assert!(seen.insert(row));
    }
}
