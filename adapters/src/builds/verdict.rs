//! What a builder's end means for the one who uploaded the component.

use sless_core::build_protocol::{Limits, Reply};
use sless_core::ports::BuildError;

use super::child::{End, Ended};
use super::failed;

// Numbers of signals are the same on all architectures that Linux and we share (signal(7)).
const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGSYS: i32 = 31;

/// What Rust's allocator says last.
const OUT_OF_MEMORY: [&str; 2] = ["memory allocation of", "Cannot allocate memory"];

/// The builder's answer and log, if it came to one that is not an error.
pub(super) fn reply(ended: Ended, limits: &Limits) -> Result<(Reply, String), BuildError> {
    let Ended { end, reply, log } = ended;
    let out_of_memory = OUT_OF_MEMORY.iter().any(|words| log.contains(words));
    let over = |what: String| {
        format!(
            "the component can't be built within the limits: it took more than {what}. Make it smaller: strip it, leave out what is not called, split large functions"
        )
    };
    let memory = || over(format!("{} MiB of memory", limits.memory_bytes >> 20));
    let reason = match end {
        End::Exited(_) => match serde_json::from_slice(&reply) {
            Ok(Reply::Rejected { reason }) if OUT_OF_MEMORY.iter().any(|words| reason.contains(words)) => memory(),
            Ok(Reply::Rejected { reason }) => reason,
            Ok(Reply::TooLarge { reason }) => return Err(BuildError::TooLarge { reason }),
            Ok(Reply::Failed { reason }) => return Err(failed("run the builder")(reason)),
            Ok(reply) => return Ok((reply, log)),
            Err(_) => {
                return Err(failed("run the builder")(format!(
                    "it answered nothing that can be read, and ended with {end:?}: {}",
                    tail(&log)
                )));
            }
        },
        End::OutOfTime => over(format!("{} s", limits.wall_seconds)),
        End::Signalled(SIGXCPU) => over(format!("{} s of processor time", limits.cpu_seconds)),
        End::Signalled(SIGABRT) if out_of_memory => memory(),
        End::Signalled(SIGXFSZ) => over(format!("{} MiB of compiled code", limits.artifact_bytes >> 20)),
        End::Signalled(SIGSYS) => {
            tracing::error!(
                log = tail(&log),
                "a builder called what no compile calls, and was ended: look at the component"
            );
            "building this component did what no compile does, and was ended".to_owned()
        }
        // Not ours: the system's, when memory is short, or somebody's.
        End::Signalled(SIGKILL) => {
            return Err(failed("run the builder")(
                "it was killed from outside, as a system that is short of memory does",
            ));
        }
        End::Signalled(signal) => {
            format!("the compiler crashed on this component (signal {signal}), which is a fault of the platform")
        }
        End::Flooded => return Err(failed("run the builder")("its answer has no end")),
        End::Cancelled => return Err(failed("run the builder")("it was cancelled")),
    };
    Err(BuildError::Rejected { reason, log })
}

fn tail(log: &str) -> &str {
    let start = log.char_indices().rev().nth(300).map_or(0, |(at, _)| at);
    &log[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(end: End, reply: &str, log: &str) -> Result<(Reply, String), BuildError> {
        super::reply(Ended { end, reply: reply.into(), log: log.into() }, &Limits::default())
    }

    #[test]
    fn each_limit_is_named_when_it_ends_a_builder() {
        for (end, log, named) in [
            (End::OutOfTime, "", "more than 180 s."),
            (End::Signalled(SIGXCPU), "", "150 s of processor time"),
            (End::Signalled(SIGABRT), "memory allocation of 99 bytes failed", "3072 MiB of memory"),
            (End::Signalled(SIGXFSZ), "", "256 MiB of compiled code"),
            (End::Signalled(SIGABRT), "thread overflowed its stack", "signal 6"),
            (End::Signalled(11), "", "signal 11"),
            (End::Signalled(SIGSYS), "", "what no compile does"),
        ] {
            let Err(BuildError::Rejected { reason, log: kept }) = of(end, "", log) else { panic!("{end:?}") };
            assert!(reason.contains(named), "{reason}");
            assert_eq!(kept, log);
        }
    }

    #[test]
    fn what_is_not_the_codes_fault_may_be_tried_again() {
        for end in [End::Signalled(SIGKILL), End::Exited(0), End::Exited(101), End::Flooded] {
            assert!(matches!(of(end, "not json", ""), Err(BuildError::Failed { .. })), "{end:?}");
        }
        let failed = of(End::Exited(12), r#"{"answer":"failed","reason":"no disk"}"#, "");
        assert!(matches!(failed, Err(BuildError::Failed { source, .. }) if source.to_string() == "no disk"));
    }

    #[test]
    fn refusals_keep_their_words() {
        let refused = of(End::Exited(10), r#"{"answer":"rejected","reason":"because"}"#, "log");
        assert!(matches!(refused, Err(BuildError::Rejected { reason, log }) if reason == "because" && log == "log"));
        let large = of(End::Exited(11), r#"{"answer":"tooLarge","reason":"9 bytes"}"#, "");
        assert!(matches!(large, Err(BuildError::TooLarge { reason }) if reason == "9 bytes"));
    }
}
