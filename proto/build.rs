//! Compiles the protocol with protox, so that no `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=fleet/v1/fleet.proto");
    let descriptors = protox::compile(["fleet/v1/fleet.proto"], ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("fleet.v1.bin"), descriptors.encode_to_vec())?;

    let mut config = tonic_prost_build::configure()
        .btree_map(".")
        // The wire types are also the JSON output of the command lines.
        .type_attribute(".", "#[derive(serde::Serialize)]")
        .type_attribute(".", "#[serde(rename_all = \"snake_case\")]");
    for field in ["seen_at", "expires_at", "not_after", "created_at", "observed_at", "granted_at"] {
        for message in [
            "NodeView",
            "LeaseView",
            "LeaseRow",
            "RunView",
            "RunDetail",
            "ListRunsResponse",
            "ListNodesResponse",
            "ListLeasesResponse",
            "ListCapabilitiesResponse",
            "ExplainResponse",
        ] {
            config = config.field_attribute(
                format!(".fleet.v1.{message}.{field}"),
                "#[serde(serialize_with = \"crate::json::instant\")]",
            );
        }
    }
    config = config.field_attribute(".fleet.v1.Event.at", "#[serde(serialize_with = \"crate::json::instant\")]");
    for field in [
        "RunView.ended_at",
        "StepView.started_at",
        "StepView.ended_at",
        "CurrentStep.started_at",
        "RunDetail.sealed_at",
        "NodeView.drain_since_at",
    ] {
        config = config.field_attribute(
            format!(".fleet.v1.{field}"),
            "#[serde(serialize_with = \"crate::json::optional_instant\", skip_serializing_if = \"Option::is_none\")]",
        );
    }
    for field in [
        "RunView.verdict",
        "RunView.work_id",
        "RunView.reject",
        "Reject.as",
        "Verdict.node",
        "Verdict.by",
        "Verdict.step",
        "StepView.node",
        "StepView.exit_code",
        "StepView.reason",
        "StepView.message",
        "NodeView.instance",
        "NodeView.lease",
        "NodeView.draining",
        "NodeView.drain_reason",
        "NodeView.policy_error",
        "NodeView.agent_version",
        "ListRunsResponse.next",
        "ExplainResponse.place",
        "ExplainResponse.lendable",
        "Event.run_id",
        "Event.node_id",
        "DryRunResponse.reject",
    ] {
        config =
            config.field_attribute(format!(".fleet.v1.{field}"), "#[serde(skip_serializing_if = \"Option::is_none\")]");
    }
    for field in ["RunView.assigned", "RunView.current", "RunDetail.findings", "StepView.produced"] {
        config =
            config.field_attribute(format!(".fleet.v1.{field}"), "#[serde(skip_serializing_if = \"Vec::is_empty\")]");
    }
    config = config.field_attribute(".fleet.v1.Capability.attrs", "#[serde(serialize_with = \"crate::json::attrs\")]");
    config = config.field_attribute(".fleet.v1.Event.data", "#[serde(serialize_with = \"crate::json::raw\")]");
    config.compile_fds(descriptors)?;
    Ok(())
}
