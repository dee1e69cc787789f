//! What [`Secrets`] promises.

use futures::StreamExt;
use proptest::prelude::*;

use super::{namespace, samples, within};
use crate::names::SecretName;
use crate::ports::secrets::MAX_SECRET_BYTES;
use crate::ports::{Error, SecretValue, Secrets};

fn name(text: &str) -> SecretName {
    text.parse().expect("a name")
}

/// Runs the contract of [`Secrets`].
pub async fn secrets(secrets: &dyn Secrets) {
    let (ours, theirs) = (namespace(), namespace());
    let (key, other) = (name("api-key"), name("zz"));
    let value = |text: &str| SecretValue(text.to_owned());
    assert_eq!(secrets.get(ours, &key).await.expect("get"), None);
    assert!(matches!(secrets.delete(ours, &key).await, Err(Error::NotFound { .. })));
    assert_eq!(secrets.list(ours).await.expect("list"), []);

    let mut changes = secrets.watch();
    let first = secrets.put(ours, &key, value("one")).await.expect("put");
    assert_eq!(within("the first write", changes.next()).await, Some((ours, key.clone())));
    assert_eq!((&first.name, first.created_at), (&key, first.updated_at));
    let second = secrets.put(ours, &key, value("two")).await.expect("put again");
    assert_eq!(second.created_at, first.created_at, "when it was first written does not change");
    assert!(second.updated_at >= first.updated_at);
    assert_eq!(within("the second write", changes.next()).await, Some((ours, key.clone())));
    assert_eq!(secrets.get(ours, &key).await.expect("get"), Some(value("two")));

    // Namespaces don't meet.
    assert_eq!(secrets.get(theirs, &key).await.expect("get"), None);
    secrets.put(theirs, &key, value("theirs")).await.expect("put");
    secrets.put(ours, &other, value("")).await.expect("an empty value");
    assert_eq!(secrets.get(ours, &key).await.expect("get"), Some(value("two")));
    assert_eq!(secrets.get(ours, &other).await.expect("get"), Some(value("")));
    let listed = secrets.list(ours).await.expect("list");
    assert_eq!(listed.iter().map(|info| &info.name).collect::<Vec<_>>(), [&key, &other], "by name");
    assert_eq!(listed[0], second);

    secrets.delete(ours, &key).await.expect("delete");
    assert_eq!(secrets.get(ours, &key).await.expect("get"), None);
    assert!(matches!(secrets.delete(ours, &key).await, Err(Error::NotFound { .. })));
    assert_eq!(secrets.get(theirs, &key).await.expect("get"), Some(value("theirs")));
    let rest: Vec<_> = within("the other changes", changes.by_ref().take(3).collect()).await;
    assert_eq!(rest, [(theirs, key.clone()), (ours, other.clone()), (ours, key.clone())], "in order, the removal too");

    // Sizes and texts.
    secrets.put(ours, &key, SecretValue("x".repeat(MAX_SECRET_BYTES))).await.expect("the largest value");
    let error =
        secrets.put(ours, &key, SecretValue("x".repeat(MAX_SECRET_BYTES + 1))).await.expect_err("a byte too many");
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    assert_eq!(secrets.get(ours, &key).await.expect("get").map(|v| v.0.len()), Some(MAX_SECRET_BYTES));
    for text in samples(20, any::<String>()).into_iter().chain(["\0".to_owned(), "é\u{1f980}\r\n".to_owned()]) {
        secrets.put(ours, &key, SecretValue(text.clone())).await.expect("put");
        assert!(
            secrets.get(ours, &key).await.expect("get") == Some(SecretValue(text.clone())),
            "{text:?} came back changed"
        );
    }

    // A watcher that does not read misses nothing that it has to know.
    let mut late = secrets.watch();
    for round in 0..300 {
        let name = name(&format!("many-{}", round % 150));
        match round < 150 {
            true => drop(secrets.put(ours, &name, value("x")).await.expect("put")),
            false => secrets.delete(ours, &name).await.expect("delete"),
        }
    }
    let mut removed = std::collections::BTreeSet::new();
    within("a late watcher", async {
        while removed.len() < 150 {
            let (_, name) = late.next().await.expect("a change");
            if secrets.get(ours, &name).await.expect("get").is_none() {
                removed.insert(name);
            }
        }
    })
    .await;
}
