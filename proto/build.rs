//! Compiles the protocol with protox, so that no `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=fleet/v1/fleet.proto");
    let descriptors = protox::compile(["fleet/v1/fleet.proto"], ["."])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("fleet.v1.bin"), descriptors.encode_to_vec())?;

    let mut config = tonic_prost_build::configure()
        .btree_map(".")
        .codec_path("crate::codec::LeanCodec")
        // The wire types are also the JSON output of the command lines.
        .type_attribute(".", "#[derive(serde::Serialize)]")
        .type_attribute(".", "#[serde(rename_all = \"snake_case\")]");
    for (path, field) in descriptors.file.iter().flat_map(fields) {
        let name = field.name();
        let is_time = name.ends_with("_at") || name == "not_after" || name == "at";
        let is_list = field.label() == Label::Repeated;
        // Otherwise it is a variant of an enum, and no field.
        let alone = field.oneof_index.is_none() || field.proto3_optional();
        let may_lack = alone && !is_list && (field.proto3_optional() || field.r#type() == Type::Message);
        let how = match (is_time && field.r#type() == Type::Int64, may_lack) {
            (true, true) => {
                "#[serde(serialize_with = \"crate::json::optional_instant\", skip_serializing_if = \"Option::is_none\")]"
            }
            (true, false) => "#[serde(serialize_with = \"crate::json::instant\")]",
            (false, true) => "#[serde(skip_serializing_if = \"Option::is_none\")]",
            (false, false) => continue,
        };
        config = config.field_attribute(path, how);
    }
    for field in ["RunView.assigned", "RunView.current", "RunDetail.findings", "StepView.produced"] {
        config =
            config.field_attribute(format!(".fleet.v1.{field}"), "#[serde(skip_serializing_if = \"Vec::is_empty\")]");
    }
    config = config.field_attribute(".fleet.v1.Capability.attrs", "#[serde(serialize_with = \"crate::json::attrs\")]");
    config = config.field_attribute(
        ".fleet.v1.AskView.form",
        "#[serde(serialize_with = \"crate::json::raw\", skip_serializing_if = \"String::is_empty\")]",
    );
    config = config.field_attribute(".fleet.v1.Event.data", "#[serde(serialize_with = \"crate::json::raw\")]");
    config.compile_fds(descriptors)?;
    Ok(())
}

/// Every field of every message with its path.
fn fields(file: &FileDescriptorProto) -> impl Iterator<Item = (String, &FieldDescriptorProto)> {
    let of = |message: &DescriptorProto| {
        let path = format!(".{}.{}", file.package(), message.name());
        message.field.iter().map(|field| format!("{path}.{}", field.name())).collect::<Vec<_>>()
    };
    file.message_type.iter().flat_map(move |message| of(message).into_iter().zip(&message.field))
}
