use std::os::unix::fs::PermissionsExt as _;

use super::*;

#[test]
fn the_file_is_its_owners_alone_and_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(DevFile::read(folder.path()).unwrap(), None);
    let mut file = DevFile { endpoint: "http://a".into(), internal: "http://b".into(), token: "t".into(), pid: 7 };
    file.write(folder.path()).unwrap();
    file.pid = 8;
    file.write(folder.path()).unwrap();
    assert_eq!(DevFile::read(folder.path()).unwrap(), Some(file));
    let mode = std::fs::metadata(folder.path().join("dev.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    DevFile::remove(folder.path());
    assert_eq!(DevFile::read(folder.path()).unwrap(), None);
    std::fs::write(folder.path().join("dev.json"), "{").unwrap();
    assert!(DevFile::read(folder.path()).unwrap_err().to_string().contains("is not what `sless dev` writes"));
}

#[test]
fn a_new_folder_is_its_owners_and_not_for_git() {
    let outer = tempfile::tempdir().unwrap();
    let data = outer.path().join("a/.sless");
    make_folder(&data).unwrap();
    make_folder(&data).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::read_to_string(data.join(".gitignore")).unwrap(), "*\n");
}

#[test]
fn a_secret_is_read_only_where_one_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let error = read_jwt_secret(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no `sless dev` has run"), "{error}");
    assert!(!folder.path().join("keys").exists(), "reading makes nothing");
    let key = embedded::key_file(folder.path(), JWT_KEY).unwrap();
    assert_eq!(read_jwt_secret(folder.path()).unwrap(), hex::encode(key));
}

#[tokio::test]
async fn a_taken_port_is_named_with_its_option() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = listen(port, "--port").await.unwrap_err();
    assert_eq!(error.to_string(), format!("port {port} is taken by another program"));
    assert_eq!(error.remedy().unwrap(), "choose another port with --port PORT, or let --port 0 take a free one");
}

#[tokio::test]
async fn a_folder_in_use_is_named_with_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let opened = embedded::open(folder.path(), embedded::Options::default()).await.unwrap();
    let config =
        DevConfig { data: folder.path().into(), port: 0, internal_port: 0, builder: vec!["/bin/false".into()] };
    let error = run(config, |_| panic!("not ready"), Shutdown::default()).await.unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.remedy().unwrap().contains("--data"));
    opened.close().await;
}

#[tokio::test]
async fn a_program_that_is_no_builder_is_found_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        DevConfig { data: folder.path().into(), port: 0, internal_port: 0, builder: vec!["/bin/false".into()] };
    let error = run(config, |_| panic!("not ready"), Shutdown::default()).await.unwrap_err().to_string();
    assert!(error.contains("start builds") && error.contains("/bin/false"), "{error}");
}
