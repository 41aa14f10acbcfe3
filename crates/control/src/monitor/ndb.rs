//! The queries to an SQL node of an NDB cluster in each probe.

use cluster::observation::{DataNode, DataNodeStatus, Failure, Ndb};
use net::query::{Client, ResultSet};

use super::dialect::without_line_breaks;
use super::link::query_failure;

/// Session and global variables in one: which of the two these are differs by version.
const STATUS: &str = "SHOW STATUS WHERE Variable_name IN ('Ndb_cluster_node_id', 'Ndb_number_of_data_nodes', \
    'Ndb_number_of_ready_data_nodes', 'Ndb_system_name')";
/// The data nodes that run.
const NODES: &str = "SELECT m.group_id AS group_id, n.status AS status FROM ndbinfo.membership m \
    JOIN ndbinfo.nodes n ON n.node_id = m.node_id";

/// Asks a server where it stands. A refusal leaves out what is refused; any other failure is the probe's.
pub(super) async fn read(client: &mut Client) -> Result<Option<Ndb>, Failure> {
    let Some(answer) = ask(client, STATUS).await? else { return Ok(None) };
    let mut ndb = read_status(&answer);
    // Without data nodes no node can answer.
    if ndb.ready > 0
        && let Some(answer) = ask(client, NODES).await?
    {
        ndb.nodes = read_nodes(&answer);
    }
    Ok(Some(ndb))
}

async fn ask(client: &mut Client, sql: &str) -> Result<Option<ResultSet>, Failure> {
    match client.query_one(sql).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.server_error().is_some() => {
            tracing::debug!("the state of the NDB cluster cannot be read: {error}");
            Ok(None)
        }
        Err(error) => Err(query_failure(&error)),
    }
}

fn read_status(answer: &ResultSet) -> Ndb {
    let value = |name: &str| {
        let is_it = |row: &usize| {
            answer.text(*row, "Variable_name").is_some_and(|reported| reported.eq_ignore_ascii_case(name))
        };
        (0..answer.rows.len()).find(is_it).and_then(|row| answer.text(row, "Value")).unwrap_or_default()
    };
    let number = |name: &str| value(name).parse().unwrap_or(0);
    Ndb {
        node_id: number("Ndb_cluster_node_id"),
        data_nodes: number("Ndb_number_of_data_nodes"),
        ready: number("Ndb_number_of_ready_data_nodes"),
        system: without_line_breaks(&value("Ndb_system_name")),
        nodes: Vec::new(),
    }
}

fn read_nodes(answer: &ResultSet) -> Vec<DataNode> {
    let node = |row: usize| {
        let status = answer.text(row, "status")?;
        Some(DataNode {
            group: answer.text(row, "group_id")?.parse().ok()?,
            status: match &*status {
                "STARTED" => DataNodeStatus::Started,
                "SINGLEUSER" => DataNodeStatus::SingleUser,
                _ => DataNodeStatus::Other,
            },
        })
    };
    (0..answer.rows.len()).filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::super::dialect::tests::table;
    use super::*;

    #[test]
    fn an_sql_node_tells_its_cluster_and_data_nodes() {
        let status = table(
            "Variable_name|Value\nNdb_cluster_node_id|100\nNdb_number_of_data_nodes|4\nNdb_number_of_ready_data_nodes|3\n\
             Ndb_system_name|MC_20191126162038",
        );
        let reported = Ndb { node_id: 100, data_nodes: 4, ready: 3, system: "MC_20191126162038".into(), nodes: vec![] };
        assert_eq!(read_status(&status), reported);
        // One without the engine has no such variables.
        assert_eq!(read_status(&table("Variable_name|Value")), Ndb::default());
        // Numbers that are none count as nothing.
        assert_eq!(read_status(&table("Variable_name|Value\nNdb_number_of_ready_data_nodes|-1")).ready, 0);
    }

    #[test]
    fn data_nodes_tell_their_group_and_what_they_do() {
        let nodes = read_nodes(&table("group_id|status\n0|STARTED\n0|STARTING\n1|SINGLEUSER\n65536|CMVMI\nx|STARTED"));
        let of = |group, status| DataNode { group, status };
        use DataNodeStatus::{Other, SingleUser, Started};
        assert_eq!(nodes, [of(0, Started), of(0, Other), of(1, SingleUser), of(65_536, Other)]);
    }
}
