//! Tokens: a new one is made here, and the one to ask with is read from its file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::args::files::TokenCommand;
use super::fault::Fault;
use super::output::Output;
use crate::model::{Name, private};

/// What every token begins with, so that a scanner of texts finds one that was published.
const PREFIX: &str = "dh_";
/// 256 bits: nobody guesses it, so a plain digest of it is enough.
const BYTES: usize = 32;

/// Makes a token and prints it with the table that the configuration needs.
pub(super) fn run(output: &Output, command: &TokenCommand) -> Result<(), Fault> {
    let TokenCommand::New { id, scopes, tenants } = command;
    let name = |text: &String| {
        text.parse::<Name>().map_err(|error| Fault::Usage(format!("{text}: {error}"))).map(drop)
    };
    [id].into_iter().chain(tenants).try_for_each(name)?;
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Fault::Local(format!("no random bytes: {error}")))?;
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let sha256: String = Sha256::digest(&token).iter().map(|byte| format!("{byte:02x}")).collect();
    output.either(
        || {
            json!({"id": id, "token": token, "sha256": sha256, "scopes": scopes, "tenants": tenants})
                .to_string()
        },
        || printed(id, &token, &sha256, scopes, tenants),
    )
}

fn printed(id: &str, token: &str, sha256: &str, scopes: &[String], tenants: &[String]) -> String {
    let list =
        |items: &[String]| items.iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ");
    let pinned = if tenants.is_empty() { String::new() } else { format!("\ntenants = [{}]", list(tenants)) };
    format!(
        "{token}\n\nThat is the token: it is shown this once. The server's configuration gets\n\n[[token]]\n\
         id = \"{id}\"\nsha256 = \"{sha256}\"\nscopes = [{}]{pinned}",
        list(scopes)
    )
}

/// The token in a file that only its owner can read.
pub(super) fn read(file: &Path) -> Result<String, Fault> {
    let fault = |error: std::io::Error| Fault::Local(format!("{}: {error}", file.display()));
    let mode = fs::metadata(file).map_err(fault)?.permissions().mode();
    private::own(file, mode).map_err(|open| Fault::Local(format!("{} {open}", file.display())))?;
    let text = fs::read_to_string(file).map_err(fault)?;
    let token = text.trim();
    let good = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if good { Ok(token.to_owned()) } else { Err(Fault::Local(format!("{} holds no token", file.display()))) }
}
