//! What kind of address an IP address is: which may be dialled, which only when an operator
//! lists it, and which never.
//!
//! Default deny: an IPv6 address outside the global unicast space is never public, and neither
//! is anything in the IANA special-purpose registries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of an address. Only [`Kind::Public`] may be dialled by anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Globally routable.
    Public,
    /// RFC 1918, RFC 6598 (carrier NAT) and RFC 4193.
    Private,
    Loopback,
    /// Set aside for a purpose: documentation, benchmarks, tunnels, translation.
    Reserved,
    /// Never dialled: where cloud hosts keep their credentials.
    LinkLocal,
    /// Never dialled: a cloud's metadata service outside the link-local range.
    Metadata,
    /// Never dialled: unspecified, multicast or broadcast.
    Unusable,
}

impl Kind {
    /// True when an operator may list it.
    #[must_use]
    pub fn listable(self) -> bool {
        match self {
            Kind::Public | Kind::Private | Kind::Loopback | Kind::Reserved => true,
            Kind::LinkLocal | Kind::Metadata | Kind::Unusable => false,
        }
    }

    /// The word for it in an error.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Public => "public",
            Kind::Private => "private",
            Kind::Loopback => "loopback",
            Kind::Reserved => "reserved",
            Kind::LinkLocal => "link-local",
            Kind::Metadata => "metadata",
            Kind::Unusable => "unusable",
        }
    }
}

/// First address, length of the prefix, kind; the first row that fits wins.
const IPV4: [(Ipv4Addr, u32, Kind); 18] = [
    (Ipv4Addr::new(168, 63, 129, 16), 32, Kind::Metadata),
    (Ipv4Addr::new(100, 100, 100, 200), 32, Kind::Metadata),
    (Ipv4Addr::new(192, 0, 0, 192), 32, Kind::Metadata),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Kind::Unusable),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Kind::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Kind::Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Kind::Loopback),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Kind::LinkLocal),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Kind::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Kind::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Kind::Reserved),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Kind::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Kind::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Kind::Reserved),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Kind::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Kind::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 4, Kind::Unusable),
    (Ipv4Addr::new(240, 0, 0, 0), 4, Kind::Unusable),
];

const fn v6(head: [u16; 3]) -> Ipv6Addr {
    Ipv6Addr::new(head[0], head[1], head[2], 0, 0, 0, 0, 0)
}

/// As [`IPV4`]. The row of 2000::/3 is the only way to be public. Metadata: all that AWS keeps for
/// itself (::254 of instances, ::23 of pods), Google, Oracle, Scaleway, Akamai, Alibaba.
const IPV6: [(Ipv6Addr, u32, Kind); 19] = [
    (v6([0xfd00, 0xec2, 0]), 32, Kind::Metadata),
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128, Kind::Metadata),
    (Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe), 128, Kind::Metadata),
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128, Kind::Metadata),
    (Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1), 128, Kind::Metadata),
    (Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200), 128, Kind::Metadata),
    (Ipv6Addr::LOCALHOST, 128, Kind::Loopback),
    (Ipv6Addr::UNSPECIFIED, 128, Kind::Unusable),
    (v6([0xff00, 0, 0]), 8, Kind::Unusable),
    (v6([0xfe80, 0, 0]), 10, Kind::LinkLocal),
    (v6([0xfc00, 0, 0]), 7, Kind::Private),
    (v6([0x2001, 0, 0]), 23, Kind::Reserved),
    (v6([0x2001, 0xdb8, 0]), 32, Kind::Reserved),
    (v6([0x2002, 0, 0]), 16, Kind::Reserved),
    (v6([0x3fff, 0, 0]), 20, Kind::Reserved),
    (v6([0x2620, 0x4f, 0x8000]), 48, Kind::Reserved),
    (v6([0x3ffe, 0, 0]), 16, Kind::Reserved),
    (v6([0x2000, 0, 0]), 3, Kind::Public),
    (Ipv6Addr::UNSPECIFIED, 0, Kind::Reserved),
];

/// The kind of `address`. A mapped IPv4 address is the IPv4 address; one that carries an
/// IPv4 address that is never dialled is as that one is.
#[must_use]
pub fn classify(address: IpAddr) -> Kind {
    match address.to_canonical() {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => match carried(v6).map(classify_v4) {
            Some(kind) if !kind.listable() => kind,
            Some(_) | None => classify_v6(v6),
        },
    }
}

fn classify_v4(address: Ipv4Addr) -> Kind {
    let fits = |net: Ipv4Addr, length: u32| (address.to_bits() ^ net.to_bits()) >> (32 - length) == 0;
    IPV4.iter().find(|(net, length, _)| fits(*net, *length)).map_or(Kind::Public, |(_, _, kind)| *kind)
}

fn classify_v6(address: Ipv6Addr) -> Kind {
    let differing = |net: Ipv6Addr| address.to_bits() ^ net.to_bits();
    let fits = |net: Ipv6Addr, length: u32| differing(net).leading_zeros() >= length;
    IPV6.iter().find(|(net, length, _)| fits(*net, *length)).map_or(Kind::Reserved, |(_, _, kind)| *kind)
}

/// The IPv4 address inside a NAT64, 6to4 or IPv4-compatible address. `::` and `::1` have none.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let low = (bits & u128::from(u32::MAX)) as u32;
    match address.segments() {
        [0x64, 0xff9b, ..] => Some(Ipv4Addr::from_bits(low)),
        [0x2002, ..] => Some(Ipv4Addr::from_bits((bits >> 80) as u32)),
        [0, 0, 0, 0, 0, 0, ..] if low > 1 => Some(Ipv4Addr::from_bits(low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, addresses: &[&str]) {
        for text in addresses {
            assert_eq!(classify(text.parse().unwrap()), kind, "{text}");
        }
    }

    #[test]
    fn public() {
        check(Kind::Public, &["1.1.1.1", "9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0"]);
        check(
            Kind::Public,
            &["100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "223.255.255.255"],
        );
        check(
            Kind::Public,
            &["169.253.255.255", "169.255.0.0", "168.63.129.15", "192.0.1.0", "198.17.255.255"],
        );
        check(Kind::Public, &["2606:4700::1111", "2001:200::1", "2a00::1", "::ffff:8.8.8.8"]);
    }

    #[test]
    fn listable_only() {
        check(Kind::Private, &["10.0.0.1", "100.64.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"]);
        check(Kind::Private, &["fd00:ec1::254", "fd00:ec3::254", "fd00:c1::1", "fd00:42::43"]);
        check(Kind::Private, &["fc00::1", "fd00::1", "fdff:ffff::1", "::ffff:10.0.0.1"]);
        check(Kind::Loopback, &["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]);
        check(Kind::Reserved, &["192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255"]);
        check(Kind::Reserved, &["198.51.100.1", "203.0.113.1", "2001::1", "2001:1ff::1", "2001:db8::1"]);
        check(Kind::Reserved, &["2002:808:808::", "3fff::1", "2620:4f:8000::1", "fec0::1", "4000::1"]);
        check(Kind::Reserved, &["64:ff9b::808:808", "64:ff9b:1::808:808", "::8.8.8.8", "::7f00:1", "100::1"]);
    }

    #[test]
    fn never() {
        check(Kind::LinkLocal, &["169.254.0.0", "169.254.169.254", "169.254.255.255", "fe80::1", "febf::1"]);
        check(Kind::LinkLocal, &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe"]);
        check(Kind::LinkLocal, &["2002:a9fe:a9fe::", "::169.254.169.254"]);
        check(Kind::Metadata, &["168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"]);
        check(Kind::Metadata, &["fd20:ce::254", "fd00:ec2::23", "fd00:ec2::253", "fd00:ec2:ffff::1"]);
        check(Kind::Metadata, &["fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1"]);
        check(Kind::Metadata, &["fd00:100::100:200", "64:ff9b::6464:64c8", "2002:a83f:8110::1"]);
        check(Kind::Unusable, &["0.0.0.0", "0.255.255.255", "224.0.0.1", "240.0.0.1", "255.255.255.255"]);
        check(Kind::Unusable, &["::", "ff02::1", "ff0e::1", "::ffff:0.0.0.0"]);
        for kind in [Kind::LinkLocal, Kind::Metadata, Kind::Unusable] {
            assert!(!kind.listable(), "{kind:?}");
        }
    }
}
