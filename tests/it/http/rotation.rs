//! Secrets: their forms, and that a receiver can change over without refusing anything.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use duehook::model::secret::{OVERLAP_DEFAULT, rotated};
use duehook::model::{LiveSecret, Secret};
use duehook::sender::Signers;
use duehook::time::{Millis, Timestamp};
use serde_json::json;
use standardwebhooks::Webhook;

use super::World;
use super::receiver::{Received, Receiver};
use super::signing::{FIRST, ROTATE, SECOND, is_signed_by, signed_shop};

const SHOP: &str = "/v1/destinations/shop";

/// C168: the key is the decoded bytes; what is no secret is refused, and not repeated.
#[tokio::test]
async fn c168_forms_of_a_secret() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[]).await;
    let bytes = |n: u8| -> Vec<u8> { (0..n).map(|byte| 0xf8 | byte).collect() };
    let set = async |text: &str| world.admin("PATCH", SHOP, &json!({ "secrets": [text] }).to_string()).await;
    for length in [24, 32, 64] {
        let text = STANDARD.encode(bytes(length));
        // Without its padding it is the same key, for it can mean no other.
        for text in [text.as_str(), text.trim_end_matches('=')] {
            set(&format!("whsec_{text}")).await.expect(200);
            world.deliver("shop", "").await;
            let got = receiver.next().await;
            let judge = Webhook::from_bytes(bytes(length)).unwrap();
            assert!(judge.verify(&got.body, &got.headers).is_ok(), "{length}");
        }
    }
    let (text, safe) = (STANDARD.encode(bytes(32)), URL_SAFE.encode(bytes(32)));
    assert_ne!(text, safe);
    for wrong in [
        text.clone(),
        format!("whsec_{safe}"),
        format!("whsec_{}", STANDARD.encode(bytes(23))),
        format!("whsec_{}", STANDARD.encode(bytes(65))),
        format!("v1,whsec_{text}"),
        format!(" whsec_{text}\n"),
        "whsec_".to_owned(),
        "whsec_%%%".to_owned(),
    ] {
        for refused in
            [set(&wrong).await, world.admin("POST", ROTATE, &json!({"secret": wrong}).to_string()).await]
        {
            assert_eq!(refused.status, 422, "{wrong}");
            let said = refused.json()["errors"][0]["detail"].as_str().unwrap().to_owned();
            assert!(said.contains("24 to 64 bytes in base64"), "{said}");
            assert!(!refused.text.contains(&text) && !refused.text.contains("%%%"), "{}", refused.text);
        }
    }
}

fn live(text: &str) -> LiveSecret {
    LiveSecret::new(text.parse::<Secret>().unwrap())
}

/// C168: the vector that the reference libraries publish.
#[test]
fn c168_the_vector_of_the_reference_library() {
    let at = Timestamp(1_614_265_330_000);
    let got =
        Signers::of(&[live(FIRST)]).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, br#"{"test": 2432232314}"#);
    assert_eq!(got.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
}

/// C169: from A to B with a day's overlap: A alone, both, B alone; of a second rotation within it,
/// all that have not ended.
#[test]
fn c169_an_overlap_begins_and_ends() {
    const T: u64 = 1_768_478_400_000;
    let (first, second, third) = (live(FIRST), live(SECOND), live("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"));
    let sign =
        |secrets: &[LiveSecret], at: u64| Signers::of(secrets).sign("dlv_1", Timestamp(at), b"{}").unwrap();
    let alone = |secret: &LiveSecret, at: u64| sign(std::slice::from_ref(secret), at);
    let before = [first.clone()];
    let turn = |all: &[LiveSecret], new: &LiveSecret, at: u64| {
        rotated(all, new.secret.clone(), OVERLAP_DEFAULT, Timestamp(at)).unwrap()
    };
    let during = turn(&before, &second, T);
    assert_eq!(sign(&before, T - 1), alone(&first, T - 1));
    for at in [T, T + 1, T + OVERLAP_DEFAULT.0 - 1] {
        assert_eq!(sign(&during, at), format!("{} {}", alone(&second, at), alone(&first, at)), "{at}");
    }
    for at in [T + OVERLAP_DEFAULT.0, T + OVERLAP_DEFAULT.0 + 1_000] {
        assert_eq!(sign(&during, at), alone(&second, at), "{at}");
    }
    let twice = turn(&during, &third, T + 3_600_000);
    let at = T + 7_200_000;
    assert_eq!(sign(&twice, at), [&third, &second, &first].map(|one| alone(one, at)).join(" "));
    let late = T + OVERLAP_DEFAULT.0 + 1_000;
    assert_eq!(
        sign(&twice, late),
        [&third, &second].map(|one| alone(one, late)).join(" "),
        "each has its own end"
    );
    assert_eq!(OVERLAP_DEFAULT, Millis::seconds(86_400));
}

/// C169, T71: what was accepted before the rotation, and what was tried before it, goes out under
/// the secrets of its attempt.
#[tokio::test]
async fn c169_t71_a_rotation_between_two_attempts() {
    let answers =
        vec![duehook::drill::receiver::Answer::status(503), duehook::drill::receiver::Answer::status(204)];
    let (script, record) =
        (duehook::drill::receiver::Script::List(answers), duehook::drill::receiver::Record::Bodies);
    let receiver = duehook::drill::receiver::Receiver::start(script, record).await.unwrap();
    let world = World::start().await;
    signed_shop(&world, &receiver.url("/"), &[FIRST]).await;
    let tried = world.deliver("shop", "").await;
    crate::api::until("it waits", async || world.get(&tried).await["state"] == "delayed").await;
    world.admin("POST", &format!("{SHOP}/pause"), "").await.expect(200);
    let waiting = world.deliver("shop", "").await;
    world.admin("POST", ROTATE, &json!({"secret": SECOND}).to_string()).await.expect(200);
    let again = async |id: &str| {
        world.admin("POST", &format!("/v1/deliveries/{id}/retry"), "").await.expect(200);
        world.admin("POST", &format!("{SHOP}/resume"), "").await.expect(200);
        world.ended(id).await;
    };
    again(&tried).await;
    world.ended(&waiting).await;
    let got: Vec<Received> = receiver
        .received()
        .into_iter()
        .map(|one| Received { headers: one.headers, body: one.body })
        .collect();
    assert_eq!(got.len(), 3);
    assert!(is_signed_by(FIRST, &got[0]) && !is_signed_by(SECOND, &got[0]));
    for one in &got[1..] {
        assert!(is_signed_by(FIRST, one) && is_signed_by(SECOND, one), "{one:?}");
        let parts: Vec<&str> = one.header("webhook-signature").unwrap().split(' ').collect();
        assert!(parts.len() == 2 && parts.iter().all(|part| part.starts_with("v1,")), "{parts:?}");
    }
}

/// T70: what an attacker could make of a signature that was seen, or of a secret that has ended.
/// We ship no verifier: the judge is the library that receivers use.
#[tokio::test]
async fn t70_no_other_signature_will_do() {
    let (world, mut receiver) = (World::start().await, Receiver::start().await);
    signed_shop(&world, &receiver.url, &[FIRST]).await;
    world.deliver("shop", "").await;
    let old = receiver.next().await;
    let over = json!({"secret": SECOND, "overlap_ms": 0}).to_string();
    world.admin("POST", ROTATE, &over).await.expect(200);
    world.deliver("shop", "").await;
    let got = receiver.next().await;
    assert!(is_signed_by(SECOND, &got) && !is_signed_by(FIRST, &got), "the old one has ended");
    let with = |name: &'static str, value: &str| {
        let mut headers = got.headers.clone();
        headers.insert(name, value.parse().unwrap());
        Received { headers, body: got.body.clone() }
    };
    let check = |what: &str, forged: Received| assert!(!is_signed_by(SECOND, &forged), "{what}");
    let signature = got.header("webhook-signature").unwrap();
    for length in ["v1,".len(), 7, signature.len() - 4, signature.len() - 1] {
        check("a prefix", with("webhook-signature", &signature[..length]));
    }
    check("longer", with("webhook-signature", &format!("{signature}AAAA")));
    check("twice as long", with("webhook-signature", &format!("{signature}{}", &signature[3..])));
    check("of the old secret", with("webhook-signature", old.header("webhook-signature").unwrap()));
    check("another version", with("webhook-signature", &signature.replace("v1,", "v2,")));
    check("another id", with("webhook-id", old.header("webhook-id").unwrap()));
    let sent: u64 = got.header("webhook-timestamp").unwrap().parse().unwrap();
    check("another time", with("webhook-timestamp", &(sent + 1).to_string()));
    // Signed right, and long ago: a replay.
    let secret = [live(SECOND)];
    let replay = |ago: u64| {
        let at = Timestamp((sent - ago) * 1_000);
        let signed = Signers::of(&secret).sign(got.header("webhook-id").unwrap(), at, &got.body).unwrap();
        let mut it = with("webhook-signature", &signed);
        it.headers.insert("webhook-timestamp", (sent - ago).into());
        it
    };
    assert!(is_signed_by(SECOND, &replay(10)));
    check("old", replay(600));
}
