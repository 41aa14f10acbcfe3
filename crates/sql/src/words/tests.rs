use super::*;

#[test]
fn every_word_is_found_in_any_case_and_nothing_like_it() {
    for (text, word, ..) in WORDS {
        assert!(text.bytes().all(is_identifier), "{text}");
        let found = |name: &[u8]| (find(name).text, find(name).word);
        assert_eq!(found(text.as_bytes()), (*text, *word));
        assert_eq!(found(text.to_ascii_uppercase().as_bytes()), (*text, *word));
        for at in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'9' { b'8' } else { b'9' };
            assert_ne!(find(&changed).text, *text);
            changed[at] = text.as_bytes()[at] & !0x20 & !0x40;
            assert_eq!(find_quoted(&changed).word, W::None, "a control character instead of byte {at} of {text}");
        }
    }
    assert_eq!((find(b"").word, find(b"selects").word, find(&[b'a'; 100]).word), (W::None, W::None, W::None));
}

#[test]
fn words_are_found_at_once_or_soon() {
    let probes = |text: &str| {
        let from = slot(key_of(text));
        (0..).find(|step| ENTRIES[TABLE[(from + step) % SLOTS] as usize - 1].text == text)
    };
    let most = WORDS.iter().filter_map(|(text, ..)| probes(text)).max();
    assert!(most <= Some(8), "{most:?}");
}
