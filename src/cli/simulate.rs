//! `simulate`: what a policy makes of a series of answers, without a server and without waiting.
//!
//! It asks [`decide`](crate::outcome::decide()) what the engine asks it, so that it cannot say anything else.

use std::process::ExitCode;

use serde_json::json;

use super::args::simulate::{Simulate, Step};
use super::fault::Fault;
use super::list::{Cell, Column, List, column, word};
use super::output::{Output, say, write};
use crate::config::Settings;
use crate::outcome::{Counted, Decision, Ending, Outcome, Standing, Verdict, decide};
use crate::policy::Policy;
use crate::time::{Millis, Timestamp};

/// A record knows of no more attempts in a row ([`crate::delivery::LOG_IN_RECORD`]).
const MAX_UNSENT: u32 = crate::delivery::LOG_IN_RECORD as u32;

/// What is shown of each attempt.
pub(super) const COLUMNS: [Column; 8] = [
    column("attempt", 0),
    column("at", 0),
    column("answer", 0),
    column("failures", 3),
    column("throttles", 4),
    column("wait", 1),
    column("next", 0),
    column("destination", 2),
];

/// One attempt of the story.
#[derive(Debug, PartialEq, Eq)]
struct Attempt {
    n: u32,
    at: Timestamp,
    answer: String,
    decision: Decision,
    failures: u32,
    throttles: u32,
}

/// The story of one delivery: every attempt is answered at once, and the next one made when it is due.
#[derive(Debug, Default)]
struct Story {
    attempts: Vec<Attempt>,
    /// How and when it ended; None: the answers ran out first.
    end: Option<(Ending, Timestamp)>,
}

/// Tells the story as a table, or one line of JSON an attempt.
pub(super) fn run(output: &Output, asked: &Simulate, settings: &Settings) -> Result<ExitCode, Fault> {
    let name = &asked.policy;
    let policy = settings.policies.iter().find(|(own, _)| own.as_str() == name).map(|(_, policy)| policy);
    let Some(policy) = policy else {
        let known: Vec<&str> = settings.policies.keys().map(|own| own.as_str()).collect();
        return Err(Fault::Usage(format!("there is no policy {name}; there are {}", known.join(", "))));
    };
    let story = tell(policy, &asked.answers, asked.delivery);
    if output.json {
        story.attempts.iter().try_for_each(|one| write(&document(one).to_string()))?;
        write(&last(&story).to_string())?;
    } else {
        write(&shown(&story))?;
        say(&format!("\n{}", sentence(&story, policy)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(policy: &Policy, answers: &[Step], delivery: u32) -> Story {
    let expires_at = Timestamp(0).plus(policy.max_age);
    let (mut story, mut refusals, mut interrupted) = (Story::default(), 0, 0);
    let (mut failures, mut throttles, mut unsent, mut at) = (0, 0, 0, Timestamp(0));
    let steps = answers.iter().flat_map(|step| (0..step.times).map(move |_| step));
    for (n, step) in (1..).zip(steps) {
        if at >= expires_at {
            story.end = Some((Ending::Expired, expires_at));
            return story;
        }
        refusals = refused(&step.outcome, refusals);
        let seen = Standing {
            unsent: unsent.min(MAX_UNSENT),
            ..standing(policy, (delivery, n), failures, interrupted, refusals)
        };
        let decision = decide(policy, &seen, at, &step.outcome);
        let counted = match decision.verdict {
            Verdict::Again { counted, .. } => counted,
            Verdict::End(_) => Counted::Nothing,
        };
        failures += u32::from(counted == Counted::Failure);
        throttles += u32::from(counted == Counted::Throttle);
        interrupted = if counted == Counted::Interruption { interrupted + 1 } else { 0 };
        unsent = if counted == Counted::Nothing { unsent + 1 } else { 0 };
        story.attempts.push(Attempt { n, at, answer: step.text.clone(), decision, failures, throttles });
        match decision.verdict {
            Verdict::End(ending) => {
                story.end = Some((ending, at));
                return story;
            }
            Verdict::Again { due, .. } => at = due,
        }
    }
    if at >= expires_at {
        story.end = Some((Ending::Expired, expires_at));
    }
    story
}

/// Times in a row that the destination has refused.
fn refused(outcome: &Outcome, before: u32) -> u32 {
    match outcome.status() {
        Some(429) => before + 1,
        _ if outcome.is_success() => 0,
        Some(_) | None => before,
    }
}

fn standing(
    policy: &Policy,
    (delivery, attempt): (u32, u32),
    failures: u32,
    interrupted: u32,
    refusals: u32,
) -> Standing {
    Standing {
        id: delivery.into(),
        attempt,
        failures,
        interrupted,
        unsent: 0,
        max_failures: policy.max_failures,
        expires_at: Timestamp(0).plus(policy.max_age),
        cancelling: false,
        erased: false,
        refusals,
    }
}

fn shown(story: &Story) -> String {
    let mut rows = List::of(&COLUMNS);
    for one in &story.attempts {
        let (wait, next) = match one.decision.verdict {
            Verdict::Again { due, .. } => (due.since(one.at).to_string(), passed(due)),
            Verdict::End(ending) => ("-".to_owned(), ending.as_str().to_owned()),
        };
        rows.add_row([
            Cell::new(one.n),
            passed(one.at).into(),
            Cell::new(&one.answer),
            Cell::new(one.failures),
            Cell::new(one.throttles),
            wait.into(),
            word(&next),
            destination(&one.decision).into(),
        ]);
    }
    rows.printed()
}

/// What follows for everything else that is for the destination.
fn destination(decision: &Decision) -> String {
    match (decision.hold, decision.gone) {
        (_, true) => "disabled".to_owned(),
        (Some(hold), _) => format!("held until {}", passed(hold.until)),
        (None, false) => "-".to_owned(),
    }
}

fn sentence(story: &Story, policy: &Policy) -> String {
    let end = match (story.end, story.attempts.last().map(|last| last.decision.verdict)) {
        (Some((ending, at)), _) => format!("{} {} after it was accepted", ending.as_str(), Millis(at.0)),
        (None, Some(Verdict::Again { due, .. })) => {
            format!("the answers end here: attempt {} is due at {}", story.attempts.len() + 1, passed(due))
        }
        (None, Some(Verdict::End(_)) | None) => "no answer was given".to_owned(),
    };
    format!(
        "{end}; it would expire at {}\nwaits are those of one delivery (jitter {}): --delivery N shows another",
        passed(Timestamp(policy.max_age.0)),
        policy.jitter.as_str()
    )
}

/// A time as it lies after the acceptance.
fn passed(at: Timestamp) -> String {
    format!("+{}", Millis(at.0))
}

fn document(one: &Attempt) -> serde_json::Value {
    let (next, outcome) = match one.decision.verdict {
        Verdict::Again { due, .. } => (Some(due.0), None),
        Verdict::End(ending) => (None, Some(ending.as_str())),
    };
    json!({
        "attempt": one.n, "at_ms": one.at.0, "answer": one.answer, "failures": one.failures,
        "throttles": one.throttles, "wait_ms": next.map(|due| due - one.at.0), "next_at_ms": next,
        "outcome": outcome, "hold_until_ms": one.decision.hold.map(|hold| hold.until.0),
    })
}

fn last(story: &Story) -> serde_json::Value {
    let (outcome, at) = story.end.unzip();
    json!({"outcome": outcome.map(Ending::as_str), "finished_at_ms": at.map(|at| at.0)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answers: &str) -> String {
        let answers = crate::cli::args::simulate::answers(answers).unwrap();
        let policy = Policy { jitter: crate::policy::Jitter::None, ..Policy::default() };
        let story = tell(&policy, &answers.0, 0);
        format!("{}\n\n{}", shown(&story), sentence(&story, &policy))
    }

    #[test]
    fn a_story_with_everything_in_it() {
        insta::assert_snapshot!(told("429:120,500,500,timeout,204"), @"
        ATTEMPT  AT             ANSWER   FAILURES  THROTTLES  WAIT         NEXT           DESTINATION
        1        +0s            429:120  0         1          2m 1s 145ms  +2m 1s 145ms   held until +2m 1s 145ms
        2        +2m 1s 145ms   500      1         1          5s           +2m 6s 145ms   -
        3        +2m 6s 145ms   500      2         1          30s          +2m 36s 145ms  -
        4        +2m 36s 145ms  timeout  3         1          2m           +4m 36s 145ms  -
        5        +4m 36s 145ms  204      3         1          -            delivered      -

        delivered 4m 36s 145ms after it was accepted; it would expire at +3d
        waits are those of one delivery (jitter none): --delivery N shows another
        ");
    }

    #[test]
    fn what_ends_and_what_does_not() {
        let check = |answers: &str, part: &str| {
            let text = told(answers);
            assert!(text.contains(part), "{answers}: {text}");
        };
        check("410", "disabled");
        check("410", "destination_gone 0s after");
        check("404", "rejected");
        check("503*99", "expired 3d after it was accepted");
        check("503", "attempt 2 is due at +5s");
        check("interrupted*9", "quarantined");
        check("not_processed*2", "attempt 3 is due at +6s");
        check("payload*3", "attempt 4 is due at +2m 35s");
    }
}
