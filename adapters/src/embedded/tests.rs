use std::os::unix::fs::PermissionsExt;

use sless_core::{FunctionSpec, Runtime, Tenant};
use sqlx::Connection as _;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let namespace = Tenant::from_subject("a").namespace();
    let data = dir.path().join("not").join("there yet");
    let embedded = open(&data, Options::default()).await.unwrap();
    let made = embedded.resources.functions.create(namespace, "f", FunctionSpec::new(Runtime::Wasm)).await.unwrap();
    let secret = sless_core::ports::SecretValue("value".into());
    embedded.secrets.put(namespace, &"s".parse().unwrap(), secret.clone()).await.unwrap();
    let key = key_file(&data, "signing").unwrap();
    embedded.close().await;

    let embedded = open(&data, Options::default()).await.unwrap();
    assert_eq!(embedded.resources.functions.get(namespace, "f").await.unwrap(), Some(made));
    assert_eq!(embedded.secrets.get(namespace, &"s".parse().unwrap()).await.unwrap(), Some(secret));
    assert_eq!(key_file(&data, "signing").unwrap(), key);
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o077, 0, "others can't look in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), Options::default()).await.unwrap();
    let error = open(dir.path(), Options::default()).await.map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("in use by process {}", std::process::id())), "{text}");
    assert!(text.contains(&dir.path().display().to_string()), "{text}");
    // A clean end frees the folder also while somebody still holds a port.
    let records = Arc::clone(&first.records);
    first.close().await;
    let second = open(dir.path(), Options::default()).await.unwrap();
    assert!(records.ping().await.is_err());
    second.records.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_a_newer_program_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), Options::default()).await.unwrap().close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("state.db"));
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (999, 'later', true, x'00', 0)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let error = open(dir.path(), Options::default()).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 999, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("newer sless"), "{error}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("state.db"), "not a database at all, but long enough to look at".repeat(100))
        .unwrap();
    let error = open(dir.path(), Options::default()).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("state.db"), "{error}");
}

#[test]
fn of_many_who_ask_for_a_key_all_get_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| key_file(dir.path(), "jwt").unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_ne!(keys[0], [0; 32]);
    assert_ne!(key_file(dir.path(), "signing").unwrap(), keys[0]);
    let files: Vec<_> = std::fs::read_dir(dir.path().join("keys")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let mode = std::fs::metadata(dir.path().join("keys").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_key_file_that_is_none_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("keys").join("jwt");
    let key = key_file(dir.path(), "jwt").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(key_file(dir.path(), "jwt").unwrap(), key);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "narrowed");
    std::fs::write(&path, "half").unwrap();
    let error = key_file(dir.path(), "jwt").unwrap_err();
    assert!(error.to_string().contains("4 bytes") && error.to_string().contains("keys/jwt"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"half");
    for bad in ["", "../x", "a/b", ".a", "A", &"a".repeat(33)] {
        assert!(matches!(key_file(dir.path(), bad), Err(Error::KeyName(_))), "{bad}");
    }
}
