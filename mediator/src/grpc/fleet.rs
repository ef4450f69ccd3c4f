//! `FleetService`: what there is. Nothing here changes a node: only its owner does.

use std::collections::{BTreeMap, BTreeSet};

use proto::v1::{self, fleet_service_server::FleetService};
use tonic::{Request, Response, Status};

use super::{convert::to_wire, stream::Outgoing, watch};
use crate::{
    error::Error,
    service::{
        Services,
        follow::EventFeed,
        observe::{NodeView, Page},
    },
};

/// The service.
#[derive(Clone)]
pub(super) struct Fleet(pub(super) Services);

#[tonic::async_trait]
impl FleetService for Fleet {
    async fn list_nodes(&self, _: Request<v1::ListNodesRequest>) -> Result<Response<v1::ListNodesResponse>, Status> {
        let page = self.0.nodes().await?;
        let nodes = page.rows.iter().map(to_wire::node).collect();
        Ok(Response::new(v1::ListNodesResponse { observed_at: page.observed_at.millis(), nodes }))
    }

    async fn list_leases(&self, _: Request<v1::ListLeasesRequest>) -> Result<Response<v1::ListLeasesResponse>, Status> {
        let page = self.0.leases().await?;
        let leases = page.rows.iter().map(to_wire::lease).collect();
        Ok(Response::new(v1::ListLeasesResponse { observed_at: page.observed_at.millis(), leases }))
    }

    async fn list_capabilities(
        &self,
        _: Request<v1::ListCapabilitiesRequest>,
    ) -> Result<Response<v1::ListCapabilitiesResponse>, Status> {
        Ok(Response::new(capabilities(&self.0.nodes().await?)))
    }

    type WatchFleetStream = Outgoing<v1::Event>;

    async fn watch_fleet(
        &self,
        request: Request<v1::WatchFleetRequest>,
    ) -> Result<Response<Self::WatchFleetStream>, Status> {
        let after = match request.into_inner().after {
            0 => None,
            after @ 1.. => Some(after),
            _ => return Err(Error::invalid("after", "must be the seq of an event, or 0 to start with the next").into()),
        };
        let feed = EventFeed::open(self.0.clone(), after).await?;
        Ok(Response::new(watch::fleet(feed)))
    }
}

/// What live nodes advertise, by name.
fn capabilities(page: &Page<NodeView>) -> v1::ListCapabilitiesResponse {
    let mut counts: BTreeMap<&str, (u32, BTreeSet<String>)> = BTreeMap::new();
    for node in page.rows.iter().filter(|node| node.expires_at > page.observed_at) {
        let names: BTreeSet<&str> = node.capabilities.iter().map(|it| it.name.as_str()).collect();
        for name in names {
            counts.entry(name).or_default().0 += 1;
        }
        for capability in &node.capabilities {
            let attrs = capability.attrs.iter().map(|(name, value)| format!("{name}={value}"));
            counts.entry(&capability.name).or_default().1.extend(attrs);
        }
    }
    let capabilities = counts.into_iter().map(|(name, (nodes, attrs))| v1::CapabilityCount {
        name: name.to_owned(),
        nodes,
        attrs: attrs.into_iter().collect(),
    });
    v1::ListCapabilitiesResponse { observed_at: page.observed_at.millis(), capabilities: capabilities.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::sample::{NOW, gone, node};

    #[test]
    fn a_node_counts_once_per_name_and_an_expired_one_not_at_all() {
        let mut twice = node("n1", "build");
        twice.capabilities.push(twice.capabilities[0].clone());
        let rows = [twice, node("n2", "build"), gone(node("n3", "build"), 1)];
        let page = Page { observed_at: NOW, rows: rows.map(|node| NodeView::new(node, None)).into(), next: None };
        let found = capabilities(&page).capabilities;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].nodes, found[0].attrs.join(" ").as_str()), (2, "cores=8 os=linux"));
    }
}
