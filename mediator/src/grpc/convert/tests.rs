use proto::v1;
use shared::domain::Drain;

use super::{from_wire::*, to_wire};
use crate::{
    auth::{Identity, Role},
    error::Kind,
    service::sample::{id, node},
};

pub(super) fn agent() -> Identity {
    Identity { principal: id("yard"), role: Role::Node, node: None }
}

fn text(text: &str) -> v1::AttrValue {
    v1::AttrValue { kind: Some(v1::attr_value::Kind::Text(text.to_owned())) }
}

pub(super) fn request() -> v1::AdvertiseRequest {
    v1::AdvertiseRequest {
        node: Some(v1::NodeRef { node_id: "yard/0".into(), instance: "i1".into(), streams: vec!["s1".into()] }),
        label: "the yard".into(),
        advert_no: 1,
        replaces: vec!["i0".into()],
        capabilities: vec![v1::Capability { name: "build".into(), attrs: [("os".into(), text("linux"))].into() }],
        policy: Some(v1::Policy { drain: "graceful".into(), reason: "mine".into(), since_at: 5, error: String::new() }),
        running: vec![v1::StepRef { run_id: "r".into(), seq: 0, attempt: 1 }],
        ..v1::AdvertiseRequest::default()
    }
}

fn fields(error: &crate::error::Error) -> Vec<&str> {
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    error.violations().iter().map(|it| it.field.as_str()).collect()
}

#[test]
fn a_good_advert_is_taken_as_it_is() {
    let advert = advert(&request(), &agent()).unwrap();
    assert_eq!((advert.who.node.as_str(), advert.who.principal.as_str()), ("yard/0", "yard"));
    assert_eq!((advert.policy.drain, advert.policy.reason.as_str()), (Drain::Graceful, "mine"));
    assert_eq!(advert.running, [(id("r"), 0, 1)]);
    assert_eq!(advert.capabilities[0].attrs.len(), 1);
}

#[test]
fn a_missing_policy_is_none() {
    let request = v1::AdvertiseRequest { policy: None, ..request() };
    assert_eq!(advert(&request, &agent()).unwrap().policy, shared::domain::Policy::default());
}

#[test]
fn every_problem_of_an_advert_is_named() {
    let mut bad = request();
    bad.node = Some(v1::NodeRef { node_id: "../x".into(), instance: String::new(), streams: vec!["a b".into()] });
    bad.label = "x".repeat(257);
    bad.agent_version = "a\nb".into();
    bad.advert_no = 0;
    bad.replaces = vec!["ok".into(), " ".into()];
    bad.capabilities[0].name = String::new();
    bad.capabilities[0].attrs.insert("none".into(), v1::AttrValue { kind: None });
    bad.capabilities[0].attrs.insert("long".into(), text(&"x".repeat(257)));
    bad.policy = Some(v1::Policy { drain: "soon".into(), ..v1::Policy::default() });
    bad.running = vec![v1::StepRef { run_id: "r".into(), seq: 0, attempt: 0 }];
    let error = advert(&bad, &agent()).unwrap_err();
    assert_eq!(
        fields(&error),
        [
            "node.node_id",
            "node.instance",
            "node.streams[0]",
            "label",
            "agent_version",
            "advert_no",
            "replaces[1]",
            "capabilities[0].name",
            "capabilities[0].attrs[\"long\"]",
            "capabilities[0].attrs[\"none\"]",
            "policy.drain",
            "running[0].attempt",
        ]
    );
    assert!(error.to_string().contains("\"graceful\", \"at-boundary\""), "{error}");
}

#[test]
fn limits_hold_at_their_edge() {
    let capability = |n: usize| v1::Capability {
        name: format!("c{n}"),
        attrs: (0..MAX_ATTRS).map(|n| (format!("a{n}"), text(&"x".repeat(MAX_TEXT)))).collect(),
    };
    let mut full = request();
    full.capabilities = (0..MAX_CAPABILITIES).map(capability).collect();
    full.label = "x".repeat(MAX_TEXT);
    assert!(advert(&full, &agent()).is_ok());
    full.capabilities[0].attrs.insert("more".into(), text("x"));
    assert_eq!(fields(&advert(&full, &agent()).unwrap_err()), ["capabilities[0].attrs"]);
    full.capabilities.push(capability(99));
    assert_eq!(fields(&advert(&full, &agent()).unwrap_err()), ["capabilities"]);
}

#[test]
fn an_owner_who_says_too_much_is_still_obeyed() {
    let mut long = request();
    let reason = format!("line\none\u{7}{}", "ä".repeat(2_000));
    long.policy = Some(v1::Policy { drain: "at-boundary".into(), reason, ..v1::Policy::default() });
    let policy = advert(&long, &agent()).unwrap().policy;
    assert_eq!(policy.drain, Drain::AtBoundary);
    assert_eq!(policy.reason.chars().count(), MAX_REASON);
    assert!(policy.reason.starts_with("line one ä"), "{}", policy.reason);
}

#[test]
fn an_advert_for_another_node_than_the_tokens_is_refused() {
    let bound = Identity { node: Some(id("dock")), ..agent() };
    assert_eq!(advert(&request(), &bound).unwrap_err().kind(), Kind::ForeignNode);
    assert_eq!(speaker(request().node.as_ref(), &bound).unwrap_err().kind(), Kind::ForeignNode);
}

#[test]
fn a_report_needs_a_reason_that_an_agent_may_give() {
    use v1::report_request::Outcome as Wire;
    let not =
        |reason: &str| Some(Wire::NotCompleted(v1::NotCompleted { reason: reason.into(), message: "a\tb".into() }));
    assert!(outcome(not("timeout")).is_ok());
    for bad in [not("lease_expired"), not("because"), None] {
        assert_eq!(outcome(bad).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn capabilities_come_back_as_they_went() {
    let here = node("n1", "build").capabilities;
    let wire: Vec<v1::Capability> = here.iter().map(to_wire::capability).collect();
    let mut problems = Problems::default();
    assert_eq!(capabilities("capabilities", &wire, &mut problems), here);
    assert!(problems.finish(Some(())).is_ok());
}

#[test]
fn a_nonce_that_is_none_is_not_called_stale() {
    for bad in ["", "xyz", &"0".repeat(31)] {
        assert_eq!(nonce("nonce", bad).unwrap_err().kind(), Kind::Invalid);
    }
}
