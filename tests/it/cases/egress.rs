//! The cases about which URLs may be called.

use super::Where::{self, Part, Test};

pub(super) const NUMBERS: &[u16] = &[78, 80, 81, 82, 84, 85, 86, 87, 88, 89, 91, 93];

const SPELLINGS: &str = "sender::vectors::c078_c080_c081_c082_no_spelling_of_an_address_is_dialled";
const TWO_READERS: &str = "sender::egress::tests::c085_c086_c087_two_readers_would_see_two_hosts";

pub(super) const EGRESS: [(u16, Where); 12] = [
    (78, Part(SPELLINGS, "API.md: the code is invalid, and the detail names the kind of address")),
    (80, Test(SPELLINGS)),
    (81, Test(SPELLINGS)),
    (82, Test(SPELLINGS)),
    (84, Test("sender::guard::c084_a_refused_record_is_never_fallen_back_to")),
    (85, Part(TWO_READERS, "API.md: the code is invalid, and the detail speaks of backslashes")),
    (86, Test(TWO_READERS)),
    (
        87,
        Part(
            TWO_READERS,
            "decided: a URL with a user name or password is refused, and no log or error has a URL: \
             sender::tests::an_error_names_the_host_and_nothing_else_of_the_url",
        ),
    ),
    (88, Test("sender::egress::tests::c088_a_dot_at_the_end_changes_nothing")),
    (
        89,
        Part(
            "sender::egress::tests::c089_white_space_is_refused_wherever_it_stands",
            "decided: nothing is trimmed in silence; the refusal says what is wrong with it",
        ),
    ),
    (91, Test("sender::guard::c091_no_path_is_the_root")),
    (
        93,
        Part(
            "http::trouble::c093_a_refused_url_says_what_would_admit_it",
            "API.md: networks only, a name is judged by its addresses; one in the settings that cannot be read ends with 78",
        ),
    ),
];
