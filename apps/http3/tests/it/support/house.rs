//! An origin whose clients have names and quotas.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use http::Request;
use pathmark_http3::origin::{Grant, Limits, Origin, Quota, Steward, UploadLimits};
use pathmark_http3::plan::Reply;
use pathmark_http3::root::Root;

use super::{Site, replacing, serve_with};

/// Rights, selected by the field `client`.
#[derive(Debug)]
struct Clients(BTreeMap<&'static str, Arc<Grant>>);

impl Steward for Clients {
    fn admit(&self, request: &Request<()>) -> Result<Option<Arc<Grant>>, Box<Reply>> {
        let name = request.headers().get("client");
        let name = name.map_or("one", |name| name.to_str().unwrap());
        Ok(self.0.get(name).cloned())
    }
}

fn grant(name: &str, (quota, used): (u64, u64)) -> Arc<Grant> {
    Arc::new(Grant {
        name: name.to_owned(),
        quota: Some(Arc::new(Quota::new(quota, used))),
        ..Grant::of(replacing())
    })
}

/// Returns an origin whose quotas are partly used.
pub(crate) fn house(directory: &Path, uploads: UploadLimits, quota: (u64, u64)) -> Site {
    let limits = Limits {
        uploads,
        ..Limits::default()
    };
    let rules = replacing();
    let origin = Origin::new(Root::open(directory).unwrap(), rules, limits);
    let names = [("one", ""), ("other", "other")];
    let clients = names.map(|(name, own)| (name, grant(own, quota)));
    let clients = Arc::new(Clients(clients.into_iter().collect()));
    let tended = origin.clone();
    let listed = clients.clone();
    let grant_of = move |owner: &str| {
        let mut grants = listed.0.values();
        grants.find(|grant| grant.name == owner).cloned()
    };
    tokio::spawn(async move { tended.tend(grant_of).await });
    serve_with(move |connection| {
        let (origin, clients) = (origin.clone(), clients.clone());
        async move { drop(origin.serve_with(connection, clients).await) }
    })
}
