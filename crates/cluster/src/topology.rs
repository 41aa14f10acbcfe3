//! The sources of each server, from the servers' reports of their channels.

use std::net::SocketAddr;

use crate::observation::{Channel, Facts, Receiver, Replication};

/// The values of a server that matching needs.
pub(crate) struct Node<'a> {
    /// `host:port` as configured.
    pub(crate) address: &'a str,
    /// The address that this name resolved to.
    pub(crate) resolved: Option<SocketAddr>,
    /// The facts of the server's last report, however old.
    pub(crate) facts: Option<&'a Facts>,
}

/// For each server, the indexes of the servers that it follows, whether or not its channels work.
pub(crate) fn sources(nodes: &[Node<'_>]) -> Vec<Vec<usize>> {
    nodes
        .iter()
        .enumerate()
        .map(|(index, node)| match node.facts.map(|facts| &facts.replication) {
            Some(Replication::Channels(channels)) => {
                channels.iter().filter_map(|channel| source(nodes, index, channel)).collect()
            }
            Some(Replication::Unreadable(_)) | None => Vec::new(),
        })
        .collect()
}

/// The server of the cluster that a channel of server `own` reads from.
pub(crate) fn source(nodes: &[Node<'_>], own: usize, channel: &Channel) -> Option<usize> {
    let by_id = || {
        let mut found = nodes.iter().enumerate().filter(|(index, node)| {
            channel.source_server_id != 0
                && *index != own
                && node.facts.is_some_and(|facts| facts.server_id == channel.source_server_id)
        });
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Some(index),
            // Servers with equal ids cannot be told apart by them.
            _ => None,
        }
    };
    let by_address = || nodes.iter().enumerate().position(|(index, node)| index != own && is_at(node, channel));
    // The id is what the source itself said, but when it last said it the channel may have pointed elsewhere.
    match channel.receiver {
        Receiver::Running => by_id().or_else(by_address),
        Receiver::Connecting | Receiver::Stopped => by_address().or_else(by_id),
    }
}

fn is_at(node: &Node<'_>, channel: &Channel) -> bool {
    let (host, port) = (&*channel.source_host, channel.source_port);
    let configured = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    if node.address.eq_ignore_ascii_case(&configured) {
        return true;
    }
    if let (Some(resolved), Ok(ip)) = (node.resolved, host.parse::<std::net::IpAddr>())
        && resolved.ip().to_canonical() == ip.to_canonical()
        && resolved.port() == port
    {
        return true;
    }
    node.facts.is_some_and(|facts| {
        let named = |name: &str, at: u16| !name.is_empty() && name.eq_ignore_ascii_case(host) && at == port;
        let report_port = if facts.report_port == 0 { facts.port } else { facts.report_port };
        named(&facts.report_host, report_port) || named(&facts.hostname, facts.port)
    })
}

/// Whether following sources from `start` leads back to it.
pub(crate) fn in_ring(sources: &[Vec<usize>], start: usize) -> bool {
    let mut visited = vec![false; sources.len()];
    let mut open = sources[start].clone();
    while let Some(index) = open.pop() {
        if index == start {
            return true;
        }
        if !std::mem::replace(&mut visited[index], true) {
            open.extend(&sources[index]);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::script::{channel, facts};

    fn node<'a>(address: &'a str, facts: Option<&'a Facts>) -> Node<'a> {
        Node { address, resolved: None, facts }
    }

    #[test]
    fn a_connected_channel_is_matched_by_server_id() {
        let (one, two) = (facts(1), facts(2));
        let nodes = [node("a:3306", Some(&one)), node("b:3306", Some(&two))];
        let mut from_one = channel(1);
        from_one.source_host = "behind.nat".into();
        assert_eq!(source(&nodes, 1, &from_one), Some(0));
        assert_eq!(source(&nodes, 0, &from_one), None, "nobody follows itself");
        from_one.source_server_id = 9;
        assert_eq!(source(&nodes, 1, &from_one), None);
    }

    #[test]
    fn equal_server_ids_fall_back_to_addresses() {
        let (one, other) = (facts(1), facts(1));
        let nodes = [node("a:3306", Some(&one)), node("b:3306", Some(&other)), node("c:3306", None)];
        let mut from_b = channel(1);
        from_b.source_host = "B".into();
        from_b.source_port = 3306;
        assert_eq!(source(&nodes, 2, &from_b), Some(1));
    }

    #[test]
    fn an_unconnected_channel_is_matched_by_where_it_points() {
        let (mut one, mut two) = (facts(1), facts(2));
        one.report_host = "one.internal".into();
        one.report_port = 3307;
        two.hostname = "two".into();
        two.port = 3308;
        let mut nodes = [node("a:1", Some(&one)), node("b:2", Some(&two)), node("c:3", None), node("[::1]:4", None)];
        nodes[2].resolved = Some("10.0.0.3:3306".parse().unwrap());
        for (host, port, found) in [
            ("one.internal", 3307, Some(0)),
            ("one.internal", 3306, None),
            ("TWO", 3308, Some(1)),
            ("10.0.0.3", 3306, Some(2)),
            ("::1", 4, Some(3)),
            ("elsewhere", 3306, None),
        ] {
            let mut channel = channel(0);
            (channel.source_host, channel.source_port) = (host.into(), port);
            channel.receiver = Receiver::Connecting;
            assert_eq!(source(&nodes, 4, &channel), found, "{host}:{port}");
        }
        // It pointed at server 2 when it last connected, and points at server 1 now.
        let mut moved = channel(2);
        (moved.source_host, moved.source_port, moved.receiver) = ("a".into(), 1, Receiver::Connecting);
        assert_eq!(source(&nodes, 2, &moved), Some(0));
    }

    #[test]
    fn rings() {
        let sources = [vec![1], vec![0], vec![1], vec![]];
        assert_eq!([0, 1, 2, 3].map(|start| in_ring(&sources, start)), [true, true, false, false]);
    }
}
