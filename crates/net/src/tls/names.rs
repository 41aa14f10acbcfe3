//! The names in a certificate, as servers compare them with `REQUIRE SUBJECT` and `REQUIRE ISSUER`: in OpenSSL's one-line
//! form, `/C=SE/O=Example/CN=client`.

use std::fmt::Write;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// Whom a certificate is for, and who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Whom it is for.
    pub subject: String,
    /// The issuer.
    pub issuer: String,
}

impl Names {
    /// Reads a certificate; `None` if it cannot be read.
    pub fn of(certificate: &[u8]) -> Option<Names> {
        let der = CertificateDer::from_slice(certificate);
        let certificate = EndEntityCert::try_from(&der).ok()?;
        Some(Names { subject: one_line(certificate.subject())?, issuer: one_line(certificate.issuer())? })
    }
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// BMPString and UniversalString, of which OpenSSL shows what is not zero.
const WIDE: [u8; 2] = [0x1e, 0x1c];

/// The short names that OpenSSL gives to the attributes that names are made of, by their identifiers' encoding.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 15], "businessCategory"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 41], "name"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 44], "generationQualifier"),
    (&[0x55, 4, 45], "x500UniqueIdentifier"),
    (&[0x55, 4, 46], "dnQualifier"),
    (&[0x55, 4, 65], "pseudonym"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 2], "unstructuredName"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
];

/// The content of a Name in OpenSSL's form.
fn one_line(mut name: &[u8]) -> Option<String> {
    let mut line = String::new();
    while !name.is_empty() {
        let mut set = take(&mut name, SET)?;
        while !set.is_empty() {
            let mut pair = take(&mut set, SEQUENCE)?;
            let identifier = take(&mut pair, OBJECT_IDENTIFIER)?;
            let tag = *pair.first()?;
            let value = take(&mut pair, tag)?;
            line.push('/');
            match ATTRIBUTES.iter().find(|(known, _)| *known == identifier) {
                Some((_, name)) => line.push_str(name),
                None => line.push_str(&dotted(identifier)?),
            }
            line.push('=');
            for byte in value.iter().filter(|byte| !WIDE.contains(&tag) || **byte != 0) {
                match byte {
                    b' '..=b'~' => line.push(char::from(*byte)),
                    _ => write!(line, "\\x{byte:02X}").ok()?,
                }
            }
        }
    }
    Some(line)
}

/// Takes one element with this tag off the front.
fn take<'a>(rest: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&[found, first], mut after) = rest.split_first_chunk::<2>()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (digits, behind) = after.split_at_checked(usize::from(first & 0x7f))?;
        length = digits.iter().try_fold(0usize, |sum, digit| sum.checked_mul(256)?.checked_add(usize::from(*digit)))?;
        after = behind;
    }
    let (content, behind) = after.split_at_checked(length)?;
    *rest = behind;
    (found == tag).then_some(content)
}

/// An identifier as numbers.
fn dotted(identifier: &[u8]) -> Option<String> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number = 0u64;
    for byte in identifier {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first);
                number -= first * 40;
            }
            numbers.push(std::mem::take(&mut number));
        }
    }
    Some(numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    use super::*;

    #[test]
    fn names_read_as_openssl_shows_them() {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in [
            (DnType::CountryName, "SE"),
            (DnType::StateOrProvinceName, "Uppsala"),
            (DnType::OrganizationName, "Örebro / Co"),
            (DnType::OrganizationalUnitName, "Tills"),
            (DnType::CommonName, "client"),
            (DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]), "a@b.example"),
            (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 99999]), "own"),
        ] {
            parameters.distinguished_name.push(kind, DnValue::Utf8String(value.into()));
        }
        let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let names = Names::of(certificate.der()).unwrap();
        // The output of `openssl x509 -subject -nameopt compat` for such a certificate.
        let line =
            "/C=SE/ST=Uppsala/O=\\xC3\\x96rebro / Co/OU=Tills/CN=client/emailAddress=a@b.example/1.3.6.1.4.1.99999=own";
        assert_eq!((&*names.subject, &*names.issuer), (line, line));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = one_line(&bytes);
            let _ = Names::of(&bytes);
        }
    }
}
