//! The arguments of `simulate`: a series of answers as it is typed.

use clap::Args;

use super::Files;
use crate::outcome::{MaybeSent, NotSent, Outcome, RetryHeaders};

/// Attempts of one story: more than any policy makes in its time.
const MAX_ATTEMPTS: u32 = 1_000;

#[derive(Debug, Args)]
pub(in crate::cli) struct Simulate {
    /// The policy's name
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub policy: String,
    /// Answers with commas between them: a status, 429:120 for one with a Retry-After, timeout, connect,
    /// dns, tls, blocked, ambiguous, invalid, interrupted, not_processed or payload; 503*9 for nine of them
    #[arg(long, value_name = "LIST", value_parser = answers)]
    pub answers: Answers,
    /// Which of many deliveries: jitter gives each its own waits
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub delivery: u32,
    #[command(flatten)]
    pub files: Files,
}

/// A series of answers.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Answers(pub Vec<Step>);

impl std::ops::Deref for Answers {
    type Target = [Step];

    fn deref(&self) -> &[Step] {
        &self.0
    }
}

/// One answer, so many times in a row.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Step {
    pub text: String,
    pub outcome: Outcome,
    pub times: u32,
}

/// Reads a series.
pub(in crate::cli) fn answers(text: &str) -> Result<Answers, String> {
    let steps: Result<Vec<Step>, String> = text.split(',').map(|one| step(one.trim())).collect();
    let steps = steps?;
    if steps.iter().map(|step| u64::from(step.times)).sum::<u64>() > u64::from(MAX_ATTEMPTS) {
        return Err(format!("more than {MAX_ATTEMPTS} answers"));
    }
    Ok(Answers(steps))
}

fn step(text: &str) -> Result<Step, String> {
    let (what, times) = match text.rsplit_once('*') {
        Some((what, times)) => (what, times.parse().map_err(|_| format!("{text}: not a number after *"))?),
        None => (text, 1),
    };
    let outcome =
        outcome(what).ok_or_else(|| format!("{what:?} is no answer; try 503, 429:120 or timeout"))?;
    Ok(Step { text: what.to_owned(), outcome, times })
}

fn outcome(text: &str) -> Option<Outcome> {
    Some(match text {
        "timeout" => Outcome::MaybeSent(MaybeSent::Timeout),
        "ambiguous" => Outcome::MaybeSent(MaybeSent::Ambiguous),
        "invalid" => Outcome::MaybeSent(MaybeSent::InvalidResponse),
        "interrupted" => Outcome::MaybeSent(MaybeSent::Interrupted),
        "connect" => Outcome::NotSent(NotSent::Connect),
        "tls" => Outcome::NotSent(NotSent::Tls),
        "dns" => Outcome::NotSent(NotSent::Dns),
        "blocked" => Outcome::NotSent(NotSent::Blocked),
        "not_processed" => Outcome::NotSent(NotSent::NotProcessed),
        "payload" => Outcome::NotSent(NotSent::Payload),
        answered => {
            let (status, wait) =
                answered.split_once(':').map_or((answered, None), |(s, wait)| (s, Some(wait)));
            let status = status.parse().ok().filter(|status| (200..=599).contains(status))?;
            let retry_after = wait.into_iter().map(|wait| wait.as_bytes().to_vec()).collect();
            Outcome::Answered { status, headers: RetryHeaders { retry_after, date: None } }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_typed() {
        let check = |text: &str, want: Option<usize>| {
            assert_eq!(answers(text).ok().map(|steps| steps.len()), want, "{text}");
        };
        check("204", Some(1));
        check("429:120, 500*3 ,timeout", Some(3));
        check("429:soon", Some(1));
        check("", None);
        check("500,", None);
        check("999", None);
        check("fly", None);
        check("500*x", None);
        check("500*1001", None);
        check("500*4294967295,500*4294967295", None);
    }
}
