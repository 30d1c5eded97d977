//! The command line: one binary that serves, asks a server, and tries things out.
//!
//! Everything but `serve`, `check-config`, `receiver`, `drill` and what is done to a file that no
//! server has open (`verify`, `restore`, `compact`) is a client of the admin API and opens no file. People get tables, programs get JSON (`--json`), and the
//! exit code says what came of it: 0 done, 1 failed, 2 usage, 3 not found, 4 refused because
//! work would be lost.

mod args;
mod audit;
mod bulk;
mod client;
mod completions;
mod config_view;
mod deliveries;
mod destinations;
mod fault;
mod files;
mod hand_over;
mod keys;
mod list;
mod listeners;
mod log_switch;
mod near;
mod output;
mod outward;
pub mod process;
mod progress;
mod reload;
mod send;
pub mod serve;
mod server;
mod simulate;
mod stats;
mod supervisor;
mod token;
mod top;
mod trial;
mod wire;

use std::process::ExitCode;

use clap::Parser;

use self::args::{Args, Ask, Command, Files, Global};
use self::client::Client;
use self::fault::Fault;
use self::output::Output;
use crate::config::{self, Environment, Settings, Sources};

/// Where a server listens for its operators unless told otherwise.
const ADMIN_DEFAULT: &str = "http://127.0.0.1:8461";
/// The variable that `--admin` stands over.
const TOKEN_VARIABLE: &str = "DUEHOOK_TOKEN_FILE";
const ADMIN_VARIABLE: &str = "DUEHOOK_ADMIN";

/// Reads the arguments, does what they say, and answers with the exit code.
#[must_use]
pub fn run() -> ExitCode {
    process::quiet_panics();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(refusal) => return usage(&refusal),
    };
    let Args { global, command } = args;
    match carry_out(&global, command) {
        Ok(code) => code,
        Err(fault) => {
            fault.tell(global.json);
            fault.exit_code()
        }
    }
}

/// Help and version are done (0), anything else is wrong usage (2): clap knows which is which. What
/// could not be read may have asked for JSON all the same.
fn usage(refusal: &clap::Error) -> ExitCode {
    if refusal.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let said = refusal.render().to_string();
        let fault = Fault::Usage(said.trim_start_matches("error: ").trim_end().to_owned());
        fault.tell(true);
        return fault.exit_code();
    }
    let told = refusal.print();
    let code = u8::try_from(refusal.exit_code()).unwrap_or(2);
    if told.is_err() { ExitCode::FAILURE } else { ExitCode::from(code) }
}

fn carry_out(global: &Global, command: Command) -> Result<ExitCode, Fault> {
    let environment = config::environment();
    let output = Output::new(global.json, global.yes);
    match command {
        Command::Serve(files) => {
            let sources = sources(files, environment);
            let loaded = config::loaded(&sources).map_err(Fault::Config)?;
            Ok(serve::run(sources, loaded))
        }
        Command::CheckConfig(files) => {
            in_runtime(check_config(&output, settings(files, environment)?))?.map(|()| ExitCode::SUCCESS)
        }
        Command::Token(token) => token::run(&output, &token.command).map(|()| ExitCode::SUCCESS),
        Command::Simulate(asked) => {
            let settings = settings(asked.files.clone(), environment)?;
            simulate::run(&output, &asked, &settings)
        }
        Command::Completions(asked) => completions::run(&asked).map(|()| ExitCode::SUCCESS),
        Command::Version => output.version().map(|()| ExitCode::SUCCESS),
        Command::Verify(one) => files::verify(&output, &one.file),
        Command::Restore(what) => {
            files::restore(&output, &what.backup, &settings(what.files, environment)?.data)
        }
        Command::Compact(one) => files::compact(&output, &one.file),
        Command::Receiver(receiver) => in_runtime(trial::receiver(&output, receiver))?,
        Command::Drill(drill) => in_runtime(trial::drill(&output, drill.command))?,
        Command::Ask(question) => {
            let client = Client::new(&admin(global, &environment)?, token(global, &environment)?)?;
            in_runtime(ask(&client, &output, question))?.map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn ask(client: &Client, output: &Output, question: Ask) -> Result<(), Fault> {
    match question {
        Ask::Send(send) => send::send(client, output, *send).await,
        Ask::Ls(list) => deliveries::ls(client, output, list).await,
        Ask::Get(one) => deliveries::get(client, output, &one.id).await,
        Ask::Explain(one) => deliveries::explain(client, output, &one.id).await,
        Ask::Attempts(one) => deliveries::attempts(client, output, &one.id).await,
        Ask::Retry(one) => deliveries::retry(client, output, &one.id).await,
        Ask::Cancel(one) => deliveries::cancel(client, output, &one.id).await,
        Ask::Erase(several) => deliveries::erase(client, output, &several.ids).await,
        Ask::Bulk(bulk) => bulk::run(client, output, bulk.command).await,
        Ask::Dest(dest) => destinations::run(client, output, dest.command).await,
        Ask::Stats(stats) => stats::run(client, output, stats).await,
        Ask::Audit(asked) => audit::list(client, output, &asked).await,
        Ask::Config(config) => config_view::run(client, output, &config.command).await,
        Ask::Top(top) => top::run(client, output, top).await,
        Ask::Backup(backup) => server::backup(client, output, &backup.path).await,
        Ask::Claims(claims) => server::claims(client, output, &claims.command).await,
        Ask::Drain(drain) => hand_over::drain(client, output, drain.wait).await,
        Ask::Export(export) => hand_over::export(client, output, export.output.as_deref()).await,
        Ask::Import(import) => hand_over::import(client, output, &import).await,
    }
}

/// Runs `work` to its end on this thread.
fn in_runtime<T>(work: impl Future<Output = T>) -> Result<T, Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::Local(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(work))
}

fn settings(files: Files, environment: Environment) -> Result<Settings, Fault> {
    config::load(&sources(files, environment)).map_err(Fault::Config)
}

fn sources(files: Files, environment: Environment) -> Sources {
    let Files { config, data, region } = files;
    Sources { region, data, config, environment }
}

/// Reads what the settings name as `serve` would; all of it that cannot be used is told.
async fn check_config(output: &Output, settings: Settings) -> Result<(), Fault> {
    let settings = &settings;
    let doors = listeners::doors(settings).err().map(|error| error.to_string());
    let faults: Vec<String> = doors.into_iter().chain(outward::sender(settings).err()).collect();
    if !faults.is_empty() {
        return Err(Fault::Setup(faults.join("\n")));
    }
    let Settings { region, data, ingest, admin, .. } = settings;
    output.either(
        || serde_json::json!({"valid": true, "region": region.as_str(), "data": data}).to_string(),
        || {
            format!(
                "the configuration is valid: region {region}, data {}, ingest on {}, admin on {}",
                data.display(),
                ingest.listener.listen,
                admin.listen
            )
        },
    )
}

/// The token to ask with, if a file is named.
fn token(global: &Global, environment: &Environment) -> Result<Option<String>, Fault> {
    let named = environment.get(TOKEN_VARIABLE).map(std::path::PathBuf::from);
    global.token_file.clone().or(named).map(|file| token::read(&file)).transpose()
}

fn admin(global: &Global, environment: &Environment) -> Result<String, Fault> {
    if let Some(url) = &global.admin {
        return Ok(url.clone());
    }
    match environment.get(ADMIN_VARIABLE) {
        Some(url) => url
            .to_str()
            .map(str::to_owned)
            .ok_or_else(|| Fault::Usage(format!("{ADMIN_VARIABLE} is not UTF-8"))),
        None => Ok(ADMIN_DEFAULT.into()),
    }
}
