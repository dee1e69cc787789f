//! A read as a stream: what is there, and what comes.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use sless_core::FunctionKey;
use sless_core::ports::{Error, LogLine, LogQuery, LogStream, Result};
use tokio::sync::watch;

use super::Shared;
use super::reader::{Reader, Step};

struct Follow {
    reader: Option<Reader>,
    query: LogQuery,
    ready: VecDeque<LogLine>,
    news: Option<News>,
}

/// Says when lines were written.
struct News {
    receiver: watch::Receiver<()>,
    shared: Arc<Shared>,
    function: FunctionKey,
}

impl Drop for News {
    fn drop(&mut self) {
        let mut followers = self.shared.followers();
        // This one is still counted.
        if followers.get(&self.function).is_some_and(|sender| sender.receiver_count() <= 1) {
            followers.remove(&self.function);
        }
    }
}

pub(super) async fn read(shared: Arc<Shared>, function: FunctionKey, query: LogQuery) -> Result<LogStream> {
    let folder = shared.folder(&function);
    // Before anything is read, so that no line falls between.
    let news = query.follow.then(|| {
        let receiver = shared.followers().entry(function.clone()).or_insert_with(|| watch::Sender::new(())).subscribe();
        News { receiver, shared, function }
    });
    let (tail, stop) = (query.tail, !query.follow);
    let reader = blocking(move || Reader::open(folder, tail, stop)).await?;
    let follow = Follow { reader: Some(reader), query, ready: VecDeque::new(), news };
    Ok(stream::try_unfold(follow, |mut follow| async move {
        let line = follow.next().await?;
        Ok(line.map(|line| (line, follow)))
    })
    .boxed())
}

impl Follow {
    async fn next(&mut self) -> Result<Option<LogLine>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            let Some(mut reader) = self.reader.take() else { return Ok(None) };
            if let Some(news) = &mut self.news {
                news.receiver.mark_unchanged();
            }
            let (step, reader) = blocking(move || reader.step().map(|step| (step, reader))).await?;
            self.reader = Some(reader);
            match (step, &mut self.news) {
                (Step::Lines(lines), _) => {
                    let since = self.query.since;
                    self.ready.extend(lines.into_iter().filter(|line| since.is_none_or(|since| line.at >= since)));
                }
                (Step::Idle, Some(news)) => {
                    if news.receiver.changed().await.is_err() {
                        return Ok(None);
                    }
                }
                (Step::Idle | Step::End, _) => return Ok(None),
            }
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(Error::unavailable("read a log"))?.map_err(Error::unavailable("read a log"))
}
