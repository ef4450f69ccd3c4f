//! The work stream of one node: open while the mediator knows who speaks, opened again when it breaks.

use proto::v1::{self, work_item::Item};

use super::{
    node::Node,
    retry::{Backoff, Kind},
    upload::Caller,
    wire,
};

/// Keeps the stream open. Never ends by itself.
pub async fn run(caller: Caller) {
    let mut life = caller.node.life();
    let mut backoff = Backoff::new();
    loop {
        // The sender lives as long as the node, which we hold.
        let Ok(now) = life.wait_for(Option::is_some).await.map(|it| it.clone()) else { return };
        tokio::select! {
            () = follow(&caller, &mut backoff) => {}
            changed = life.wait_for(|it| *it != now) => {
                // Another instance speaks now, or none: this stream is nobody's.
                if changed.is_err() {
                    return;
                }
                continue;
            }
        }
        backoff.pause(caller.node.interval()).await;
    }
}

/// Opens the stream and obeys it until it ends.
async fn follow(caller: &Caller, backoff: &mut Backoff) {
    let node = &caller.node;
    // Noted before it is sent: from now on every message names it.
    let who = node.draw_stream();
    let request = v1::WorkRequest { node: Some(wire::speaker(&who)) };
    let ended = match caller.link.work(request).await {
        Err(e) => e,
        Ok(mut stream) => loop {
            match stream.next().await {
                Ok(Some(item)) => {
                    backoff.reset();
                    obey(node, item);
                }
                Ok(None) => {
                    tracing::info!(node = %node.id, mediator = caller.link.mediator(), "the work stream ended");
                    return;
                }
                Err(e) => break e,
            }
        },
    };
    match ended.kind {
        Kind::Superseded => drop(node.superseded(&who, &ended.message)),
        Kind::Retry | Kind::Stale | Kind::Checksum | Kind::Denied | Kind::Refused => {
            tracing::warn!(node = %node.id, mediator = caller.link.mediator(), error = %ended, "no work stream");
        }
    }
}

fn obey(node: &Node, item: Item) {
    let understood = match item {
        Item::Opened(opened) => wire::stream(&opened.stream).map(|stream| node.stream_opened(&stream)),
        Item::Step(step) => wire::step(step).map(|step| node.receive(step)),
        Item::Stop(stop) => wire::stop(&stop).map(|(lease, rev)| node.stop_run(&lease, rev)),
        Item::AdvertNow(v1::AdvertNow {}) => {
            node.advert_now.notify_one();
            Ok(())
        }
    };
    if let Err(e) = understood {
        tracing::error!(node = %node.id, error = %e, "a work item is ignored");
    }
}
