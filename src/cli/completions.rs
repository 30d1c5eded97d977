//! Completion scripts and manual pages, made of the same arguments that are read.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::{Args, files};
use super::fault::Fault;
use super::output::write;

/// Prints a script or the manual page, or writes the pages of all commands into a folder.
pub(super) fn run(asked: &files::Completions) -> Result<(), Fault> {
    match (&*asked.shell, &asked.folder) {
        (files::MANUAL, Some(folder)) => pages(folder),
        (files::MANUAL, None) => page(),
        (shell, None) => script(shell),
        (_, Some(_)) => Err(Fault::Usage("--folder is for man".into())),
    }
}

fn script(shell: &str) -> Result<(), Fault> {
    let shell: Shell = shell.parse().map_err(Fault::Usage)?;
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "duehook", &mut text);
    write(String::from_utf8_lossy(&text).trim_end())
}

fn page() -> Result<(), Fault> {
    let mut text = Vec::new();
    let made = clap_mangen::Man::new(Args::command()).render(&mut text);
    made.map_err(|error| Fault::Local(error.to_string()))?;
    write(String::from_utf8_lossy(&text).trim_end())
}

fn pages(folder: &Path) -> Result<(), Fault> {
    let failed = |error| Fault::Local(format!("{}: {error}", folder.display()));
    clap_mangen::generate_to(Args::command(), folder).map_err(failed)?;
    write(&format!("the manual pages are in {}", folder.display()))
}
