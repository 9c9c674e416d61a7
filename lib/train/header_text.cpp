#include "train/header_text.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace gpt {
namespace {

using nlohmann::json;

/// Tokenizers and texts of users hold any bytes.
json packed(const std::string& text) { return json::binary(std::vector<uint8_t>(text.begin(), text.end())); }

std::string unpacked(const json& value) {
  const json::binary_t& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

json object_of(const GptConfig& model) {
  return {{"layers", model.layers},   {"heads", model.heads},           {"width", model.width},
          {"context", model.context}, {"vocabulary", model.vocabulary}, {"bias", model.bias},
          {"dropout", model.dropout}};
}

GptConfig model_of(const json& object) {
  return {.layers = object.at("layers").get<int64_t>(),
          .heads = object.at("heads").get<int64_t>(),
          .width = object.at("width").get<int64_t>(),
          .context = object.at("context").get<int64_t>(),
          .vocabulary = object.at("vocabulary").get<int64_t>(),
          .bias = object.at("bias").get<bool>(),
          .dropout = object.at("dropout").get<float>()};
}

}  // namespace

std::string to_text(const CheckpointHeader& header) {
  json skipped = json::array();
  for (const Range& range : header.skipped) skipped.push_back(json::array({range.begin, range.end}));
  const json object{{"step", header.step},
                    {"last_update", header.last_update},
                    {"cursor", header.cursor},
                    {"skipped", skipped},
                    {"run_id", header.run_id},
                    {"branch", header.branch},
                    {"parent_step", header.parent_step},
                    {"model", object_of(header.model)},
                    {"configuration", packed(header.configuration)},
                    {"tokenizer", packed(header.tokenizer)},
                    {"dataset_fingerprint", header.dataset_fingerprint},
                    {"dataset_source", packed(header.dataset_source)},
                    {"spikes", packed(header.spikes)},
                    {"comm_choice", packed(header.comm_choice)}};
  const std::vector<uint8_t> text = json::to_cbor(object);
  return {text.begin(), text.end()};
}

CheckpointHeader header_from_text(const std::string& text) {
  const json object = json::from_cbor(text);
  CheckpointHeader header;
  header.step = object.at("step").get<int64_t>();
  header.last_update = object.at("last_update").get<int64_t>();
  header.cursor = object.at("cursor").get<int64_t>();
  for (const json& range : object.at("skipped"))
    header.skipped.push_back({range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
  header.run_id = object.at("run_id").get<uint64_t>();
  header.branch = object.at("branch").get<int64_t>();
  header.parent_step = object.at("parent_step").get<int64_t>();
  header.model = model_of(object.at("model"));
  header.configuration = unpacked(object.at("configuration"));
  header.tokenizer = unpacked(object.at("tokenizer"));
  header.dataset_fingerprint = object.at("dataset_fingerprint").get<uint64_t>();
  header.dataset_source = unpacked(object.at("dataset_source"));
  header.spikes = unpacked(object.at("spikes"));
  header.comm_choice = unpacked(object.at("comm_choice"));
  return header;
}

}  // namespace gpt
