//! Any text as a config file: settings or a refusal that says something, never a panic; and
//! what is taken agrees with itself.

pub fn target(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match duehook::config::parse(text) {
        Ok(settings) => {
            assert!(settings.send.connect_timeout <= settings.send.timeout);
            assert!(settings.admin.listen.is_local() || settings.admin.auth == duehook::config::Auth::Token);
            assert!(settings.policies.contains_key(&duehook::config::default_policy()));
            assert!(settings.policies.values().all(|policy| policy.min_delay <= policy.max_delay));
            assert!(settings.policies.values().all(|policy| !policy.schedule.is_empty()));
        }
        Err(refusal) => assert!(!refusal.to_string().is_empty()),
    }
}

#[test]
fn corpus() {
    crate::over_corpus("config", target);
}
