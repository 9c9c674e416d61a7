#include "train/preflight_look.hpp"

#include "base/error.hpp"

#include <nlohmann/json.hpp>

namespace gpt {
namespace {

using Json = nlohmann::json;

Json from(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
std::optional<double> number(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

Json to_json(const Space& space) {
  return {space.folder, space.free, space.total, space.writable, space.problem};
}
Space space_from(const Json& json) {
  return {.folder = json.at(0).get<std::string>(),
          .free = json.at(1).get<int64_t>(),
          .total = json.at(2).get<int64_t>(),
          .writable = json.at(3).get<bool>(),
          .problem = json.at(4).get<std::string>()};
}

Json to_json(const GpuLook& gpu) {
  Json status = Json::array();
  for (const GpuField& field : gpu_fields) status.push_back(from(gpu.status.*field.value));
  return {gpu.name, gpu.uuid, gpu.total, gpu.free, gpu.problem, status};
}
GpuLook gpu_from(const Json& json) {
  GpuLook gpu{.name = json.at(0).get<std::string>(),
              .uuid = json.at(1).get<std::string>(),
              .total = json.at(2).get<int64_t>(),
              .free = json.at(3).get<int64_t>(),
              .status = {},
              .problem = json.at(4).get<std::string>()};
  for (size_t i = 0; i < gpu_fields.size(); ++i) gpu.status.*gpu_fields[i].value = number(json.at(5).at(i));
  return gpu;
}

}  // namespace

std::string to_text(const RankLook& look) {
  const Json json = {{"name", look.name},
                     {"fingerprint", look.fingerprint},
                     {"dataset_problem", look.dataset_problem},
                     {"plan_problem", look.plan_problem},
                     {"memory", to_text(look.memory)},
                     {"host_memory", look.host_memory},
                     {"checkpoint_bytes", look.checkpoint_bytes},
                     {"run", to_json(look.run)},
                     {"shared", to_json(look.shared)},
                     {"gpu", to_json(look.gpu)},
                     {"inside", from(look.bandwidth.inside)},
                     {"between", from(look.bandwidth.between)},
                     {"wrong_sums", look.bandwidth.wrong_sums}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

RankLook look_from_text(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return {.name = json.at("name").get<std::string>(),
            .fingerprint = json.at("fingerprint").get<std::string>(),
            .dataset_problem = json.at("dataset_problem").get<std::string>(),
            .plan_problem = json.at("plan_problem").get<std::string>(),
            .memory = demand_from_text(json.at("memory").get<std::string>()),
            .host_memory = json.at("host_memory").get<int64_t>(),
            .checkpoint_bytes = json.at("checkpoint_bytes").get<int64_t>(),
            .run = space_from(json.at("run")),
            .shared = space_from(json.at("shared")),
            .gpu = gpu_from(json.at("gpu")),
            .bandwidth = {.inside = number(json.at("inside")),
                          .between = number(json.at("between")),
                          .wrong_sums = json.at("wrong_sums").get<std::vector<std::string>>()}};
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("what a rank found before the start cannot be read: {}", error.what()));
  }
}

}  // namespace gpt
