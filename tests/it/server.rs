//! The real program on free ports, with its file in a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

/// A running server. It is killed, and its folder removed, when this is dropped.
pub(crate) struct TestServer {
    pub(crate) ingest: String,
    pub(crate) admin: String,
    child: Child,
    folder: Arc<TempDir>,
}

/// A server with a new file.
pub(crate) async fn server() -> TestServer {
    TestServer::start(Arc::new(TempDir::new().expect("a folder")), &[])
}

impl TestServer {
    /// A server on the file in `folder`, with these variables set besides its ports.
    pub(crate) fn start(folder: Arc<TempDir>, variables: &[(&str, &str)]) -> TestServer {
        TestServer::logging_to(folder, variables, Stdio::inherit())
    }

    /// The same, with its log somewhere else.
    pub(crate) fn logging_to(folder: Arc<TempDir>, variables: &[(&str, &str)], log: Stdio) -> TestServer {
        let mut command = serve(folder.path(), variables);
        command.stderr(log);
        TestServer::spawn(folder, command)
    }

    /// The server that `command` starts on the file in `folder`.
    pub(crate) fn spawn(folder: Arc<TempDir>, command: Command) -> TestServer {
        TestServer::or_end(folder, command).expect("it says where it listens")
    }

    /// The same, or the exit code of one that ended before it served.
    pub(crate) fn or_end(folder: Arc<TempDir>, mut command: Command) -> Result<TestServer, Option<i32>> {
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut address = |name: &str| {
            let line = lines.next()?.expect("text");
            let (first, rest) = line.split_once(' ').expect("a name and an address");
            assert_eq!(first, name);
            Some(rest.trim().to_owned())
        };
        match (address("ingest"), address("admin")) {
            (Some(ingest), Some(admin)) => Ok(TestServer { ingest, admin, child, folder }),
            (None, _) | (_, None) => Err(child.wait().expect("it was ours").code()),
        }
    }

    /// Kills it as `kill -9` does and gives its folder back.
    pub(crate) fn kill(mut self) -> Arc<TempDir> {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was ours");
        Arc::clone(&self.folder)
    }

    /// Asks it to stop, waits, and says how it ended.
    pub(crate) fn stop(self) -> (Option<i32>, Arc<TempDir>) {
        self.terminate();
        self.wait()
    }

    /// Asks it to stop, as `kill` does.
    pub(crate) fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end, and says how it ended.
    pub(crate) fn wait(mut self) -> (Option<i32>, Arc<TempDir>) {
        let status = self.child.wait().expect("it was ours");
        (status.code(), Arc::clone(&self.folder))
    }

    pub(crate) fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// The command that starts a server on the file in `folder`.
pub(crate) fn serve(folder: &Path, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duehook"));
    command.arg("serve").env("DUEHOOK_DATA", data(folder));
    command.env("DUEHOOK_INGEST__LISTEN", "127.0.0.1:0").env("DUEHOOK_ADMIN__LISTEN", "127.0.0.1:0");
    // As much as a test writes, so that none depends on the room of this machine.
    command.env("DUEHOOK_INGEST__MIN_FREE_DISK", "1MiB");
    command.env("DUEHOOK_LOG__LEVEL", "warn").envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// The file of a server in `folder`.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("duehook.redb")
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
