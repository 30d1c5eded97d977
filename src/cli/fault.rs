//! What can go wrong with a command, how it is told, and the exit code it ends with.

use std::io::ErrorKind;
use std::process::ExitCode;

use serde::Deserialize;

use super::output::for_stderr;
use crate::config::ConfigError;
use crate::store::OpenError;
use crate::time::Millis;

/// A command that was not done.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server refused; what it said is kept to the letter for `--json`.
    Problem(Box<Refusal>),
    /// No answer came.
    Unreachable {
        admin: String,
        refused: bool,
        reason: String,
    },
    /// An answer that is not the API's: something else listens there.
    NotDuehook {
        admin: String,
    },
    /// It would have lost work, and nobody confirmed that.
    Unconfirmed(String),
    /// Something on this side: a file, standard input.
    Local(String),
    Usage(String),
    Config(ConfigError),
    /// What the settings name cannot be used.
    Setup(String),
    /// A file that cannot be used, or that is not there.
    File(OpenError),
}

/// A problem object as the server wrote it, and what may help.
#[derive(Debug)]
pub(super) struct Refusal {
    pub problem: Problem,
    pub text: String,
    pub hint: Option<String>,
}

/// RFC 9457, as far as it is read here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    pub status: u16,
    pub code: String,
    pub title: String,
    pub detail: Option<String>,
    pub errors: Vec<FieldError>,
}

/// One field that is at fault.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FieldError {
    pub field: String,
    pub detail: String,
}

/// `EX_CONFIG` of sysexits: a restart will not help.
const BAD_CONFIG: u8 = 78;

impl Fault {
    /// The exit code of API.md.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Fault::Usage(_) => 2,
            Fault::Problem(refusal) if refusal.problem.status == 404 => 3,
            Fault::Problem(refusal) if matches!(&*refusal.problem.code, "work_waiting" | "count_changed") => {
                4
            }
            Fault::Unconfirmed(_) => 4,
            Fault::Config(_) | Fault::Setup(_) => BAD_CONFIG,
            Fault::File(OpenError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => 3,
            Fault::File(error) => error.exit_code(),
            Fault::Problem(_) | Fault::Unreachable { .. } | Fault::NotDuehook { .. } | Fault::Local(_) => 1,
        })
    }

    /// The same, of one object among several.
    pub(super) fn of(self, object: &str) -> Fault {
        let Fault::Problem(mut refusal) = self else { return self };
        let said = refusal.problem.detail.take().unwrap_or_else(|| refusal.problem.title.clone());
        refusal.problem.detail = Some(format!("{object}: {said}"));
        Fault::Problem(refusal)
    }

    /// Writes it to standard error: a sentence for people, a problem object for programs.
    pub(super) fn tell(&self, json: bool) {
        use std::io::Write as _;
        let text =
            if json { self.as_problem() } else { for_stderr(&format!("duehook: {}", self.sentence())) };
        // Nobody is left to tell when standard error is closed.
        let _closed = writeln!(anstream::stderr(), "{text}");
    }

    fn sentence(&self) -> String {
        match self {
            Fault::Problem(refusal) => refusal.problem.by_flags().sentence(refusal.hint.as_deref()),
            Fault::Unreachable { admin, refused: true, .. } => format!(
                "nothing listens at {admin}; is duehook running? start it with: duehook serve \
                 (or name another server with --admin URL)"
            ),
            Fault::Unreachable { admin, refused: false, reason } => {
                format!("no answer from {admin}: {reason}")
            }
            Fault::NotDuehook { admin } => {
                format!(
                    "what answers at {admin} is not duehook's admin listener but perhaps its ingest or metrics \
                     listener, or another version; serve prints where the admin listener is"
                )
            }
            Fault::Unconfirmed(what) | Fault::Local(what) | Fault::Usage(what) | Fault::Setup(what) => {
                what.clone()
            }
            Fault::Config(error) => error.to_string(),
            Fault::File(error) => error.to_string(),
        }
    }

    fn as_problem(&self) -> String {
        let code = match self {
            Fault::Problem(refusal) => return refusal.text.clone(),
            Fault::Unreachable { .. } => "unreachable",
            Fault::NotDuehook { .. } => "not_duehook",
            Fault::Unconfirmed(_) => "not_confirmed",
            Fault::Local(_) => "local",
            Fault::Usage(_) => "usage",
            Fault::Config(_) | Fault::Setup(_) => "config",
            Fault::File(OpenError::InUse { .. }) => "in_use",
            Fault::File(_) => "file",
        };
        serde_json::json!({
            "type": format!("urn:duehook:problem:{code}"),
            "title": "the command was not done",
            "code": code,
            "detail": self.sentence(),
        })
        .to_string()
    }
}

/// Fields and headers of the API that were typed as options of another name.
const FLAGS: [(&str, &str); 17] = [
    ("duehook-max-age-ms", "--max-age"),
    ("max_age_ms", "--max-age"),
    ("duehook-max-failures", "--max-failures"),
    ("max_failures", "--max-failures"),
    ("duehook-not-before", "--not-before"),
    ("not_before", "--not-before"),
    ("duehook-class", "--class"),
    ("duehook-tenant", "--tenant"),
    ("duehook-region", "--region"),
    ("idempotency-key", "--key"),
    ("timeout_ms", "--timeout"),
    ("connect_timeout_ms", "--connect-timeout"),
    ("overlap_ms", "--overlap"),
    ("hold_scope", "--hold-scope"),
    ("allow_cidrs", "--allow-cidr"),
    ("payload_ref", "--payload-ref"),
    ("concurrency.max", "--concurrency"),
];

/// Whole numbers of milliseconds as they are typed.
fn in_units(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.parse() {
        Ok(millis) => Millis(millis).to_string(),
        Err(_) => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ").replace("a whole number", "a duration")
}

impl Problem {
    /// The same with its fields as they were typed, and times in their units.
    fn by_flags(&self) -> Problem {
        let flag = |field: &str| FLAGS.iter().find(|(name, _)| *name == field.to_ascii_lowercase());
        let mut told = Problem { detail: self.detail.clone(), errors: Vec::new(), ..self.named() };
        for FieldError { field, detail } in &self.errors {
            let Some((_, flag)) = flag(field) else {
                told.errors.push(FieldError { field: field.clone(), detail: detail.clone() });
                continue;
            };
            let millis = field.to_ascii_lowercase().ends_with("ms");
            let said = if millis { in_units(detail) } else { detail.clone() };
            if let Some(whole) = &mut told.detail {
                *whole = whole.replace(&format!("{field}: {detail}"), &format!("{flag}: {said}"));
            }
            told.errors.push(FieldError { field: (*flag).to_owned(), detail: said });
        }
        told
    }

    fn named(&self) -> Problem {
        let (code, title) = (self.code.clone(), self.title.clone());
        Problem { status: self.status, code, title, detail: None, errors: Vec::new() }
    }

    /// What was refused and why, for people.
    pub(super) fn sentence(&self, hint: Option<&str>) -> String {
        let mut text = self.detail.clone().unwrap_or_else(|| self.title.clone());
        let told = |error: &&FieldError| !text.contains(&error.detail);
        for FieldError { field, detail } in self.errors.iter().filter(told).collect::<Vec<_>>() {
            text.push_str(&format!("\n  {field}: {detail}"));
        }
        if let Some(hint) = hint {
            text.push_str(&format!("\n  {hint}"));
        }
        format!("{text} ({} {})", self.status, self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was typed was an option: that is what is named, in its units.
    #[test]
    fn a_field_is_called_as_it_was_typed() {
        let check = |field: &str, detail: &str, want: &str| {
            let error = FieldError { field: field.into(), detail: detail.into() };
            let problem = Problem {
                status: 422,
                code: "invalid".into(),
                title: "T".into(),
                detail: Some(format!("{field}: {detail}")),
                errors: vec![error],
            };
            assert_eq!(problem.by_flags().sentence(None), format!("{want} (422 invalid)"));
        };
        let range = "must be a whole number from 1000 to 2592000000";
        check("Duehook-Max-Age-Ms", range, "--max-age: must be a duration from 1s to 30d");
        check("timeout_ms", "must be from 1000 to 60000", "--timeout: must be from 1s to 1m");
        check("max_failures", "must be from 0 to 9", "--max-failures: must be from 0 to 9");
        check("url", "is not one", "url: is not one");
    }

    #[test]
    fn exit_codes_and_sentences() {
        let problem = |status: u16, code: &str| {
            Fault::Problem(Box::new(Refusal {
                problem: Problem {
                    status,
                    code: code.into(),
                    title: "T".into(),
                    detail: None,
                    errors: vec![FieldError { field: "url".into(), detail: "is not one".into() }],
                },
                text: "{}".into(),
                hint: Some("did you mean a?".into()),
            }))
        };
        let unreachable =
            |refused| Fault::Unreachable { admin: "http://x".into(), refused, reason: "late".into() };
        let check = |fault: Fault, code: u8, part: &str| {
            assert_eq!(
                format!("{:?}", fault.exit_code()),
                format!("{:?}", ExitCode::from(code)),
                "{fault:?}"
            );
            assert!(fault.sentence().contains(part), "{:?}", fault.sentence());
            assert!(serde_json::from_str::<serde_json::Value>(&fault.as_problem()).is_ok());
        };
        check(problem(422, "invalid"), 1, "T\n  url: is not one\n  did you mean a? (422 invalid)");
        check(problem(404, "not_found"), 3, "404");
        check(problem(409, "work_waiting"), 4, "409");
        check(problem(409, "count_changed"), 4, "409");
        check(problem(409, "bulk_running"), 1, "409");
        check(unreachable(true), 1, "duehook serve");
        check(unreachable(false), 1, "late");
        check(Fault::NotDuehook { admin: "http://x".into() }, 1, "http://x");
        check(Fault::Unconfirmed("not confirmed".into()), 4, "not confirmed");
        check(Fault::Usage("u".into()), 2, "u");
        check(Fault::Config(crate::config::parse("x = 1").unwrap_err()), 78, "unknown key x");
    }
}
