//! A first delivery, as lines to paste: what a new server tells whoever started it.

/// What to do next, for a server that listens there.
pub(super) fn delivery(ingest: &str, admin: &str) -> String {
    // As it was called, so that the line can be pasted.
    let program = std::env::args().next().unwrap_or_else(|| "duehook".to_owned());
    format!(
        "
A first delivery: start the test receiver in another terminal,
    {program} receiver
then tell duehook of it and send it something:
    curl -X PUT {admin}/v1/destinations/demo -H 'content-type: application/json' \\
         -d '{{\"tenant\":\"demo\",\"url\":\"http://127.0.0.1:9000/ok\",\"allow_cidrs\":[\"127.0.0.1/32\"]}}'
    curl {ingest}/v1/send/demo -H 'content-type: application/json' -d '{{\"hello\":\"world\"}}'
"
    )
}
