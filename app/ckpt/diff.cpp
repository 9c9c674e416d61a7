#include "base/error.hpp"
#include "ckpt/commands.hpp"
#include "ckpt/json.hpp"
#include "ckpt/table.hpp"
#include "standard_output.hpp"
#include "terminal_progress.hpp"
#include "text/printable.hpp"
#include "train/checkpoint_difference.hpp"

#include <nlohmann/json.hpp>

namespace gpt {
namespace {

std::string format_fields(const std::string& title, const std::vector<FieldDifference>& fields) {
  if (fields.empty()) return {};
  std::vector<std::vector<std::string>> rows{{title, "first", "second"}};
  for (const FieldDifference& field : fields)
    rows.push_back({printable_line(field.field), printable_line(field.first), printable_line(field.second)});
  return format_table(rows) + "\n";
}

std::string format_tensors(const std::vector<TensorDifference>& tensors) {
  std::vector<std::vector<std::string>> rows{
      {"state", "parameter", "elements", "different", "not finite", "max abs", "max rel"}};
  size_t equal = 0;
  for (const TensorDifference& tensor : tensors) {
    const std::string state = printable_line(tensor.state);
    if (tensor.is_equal())
      ++equal;
    else if (!tensor.incomparable.empty())
      rows.push_back({state, tensor.parameter, "", "", "", "", "", tensor.incomparable});
    else
      rows.push_back({state, tensor.parameter, fmt::format("{}", tensor.elements),
                      fmt::format("{}", tensor.different), fmt::format("{}", tensor.not_finite),
                      fmt::format("{:.4g}", tensor.absolute), fmt::format("{:.4g}", tensor.relative)});
  }
  const std::string table = rows.size() > 1 ? format_table(rows, {2, 3, 4, 5, 6}) + "\n" : std::string();
  return table +
         fmt::format("{} of {} parameters of state tensors are the same bits\n", equal, tensors.size());
}

nlohmann::json json_of(const std::vector<FieldDifference>& fields) {
  nlohmann::json json = nlohmann::json::array();
  for (const FieldDifference& field : fields)
    json.push_back({{"field", field.field}, {"first", field.first}, {"second", field.second}});
  return json;
}

nlohmann::json json_of(const TensorDifference& tensor) {
  nlohmann::json json{{"state", tensor.state}, {"parameter", tensor.parameter}, {"equal", tensor.is_equal()}};
  if (!tensor.incomparable.empty()) {
    json["incomparable"] = tensor.incomparable;
    return json;
  }
  json["elements"] = tensor.elements;
  json["different"] = tensor.different;
  json["not_finite"] = tensor.not_finite;
  json["max_abs"] = tensor.absolute;
  json["max_rel"] = tensor.relative;
  return json;
}

}  // namespace

ExitCode diff_files(const Arguments& arguments) {
  std::vector<std::string> files;
  std::string what = "all";
  bool json = false;
  CommandLine line(
      "gpt_ckpt diff A B: how two checkpoints differ\n"
      "Parameters by name, in every tensor of the state. Exit code 0: they are the same; 1: they differ.",
      "files");
  line.group("Options")("files", list(files, "A B"), "two checkpoints")(
      "what", option(what, "all|state"),
      "all: header and configuration, too; state: parameters and optimizer state alone decide")(
      "json", option(json, "true|false"), "one JSON object, which has all parameters, instead of tables");
  if (!parse(line, arguments)) return ExitCode::finished;
  validate(files.size() == 2, "{} file{}: name two checkpoints", files.size(), files.size() == 1 ? "" : "s");
  validate(what == "all" || what == "state", "--what {}: use all or state", what);

  CheckpointDifference found;
  {
    TerminalProgress bar;
    found = compare_checkpoints(files[0], files[1], [&](std::string_view phase, int64_t done, int64_t total) {
      bar(phase, done, total);
    });
  }
  const bool same = what == "all" ? found.same() : found.same_state();
  if (json) {
    nlohmann::json tensors = nlohmann::json::array();
    for (const TensorDifference& tensor : found.tensors) tensors.push_back(json_of(tensor));
    nlohmann::json object{{"same", same}, {"state", std::move(tensors)}};
    if (what == "all") {
      object["header"] = json_of(found.header);
      object["configuration"] = json_of(found.configuration);
    }
    print_json(object);
  } else {
    if (what == "all")
      print("{}{}", format_fields("header", found.header), format_fields("option", found.configuration));
    print("{}", format_tensors(found.tensors));
  }
  return same ? ExitCode::finished : ExitCode::failed;
}

}  // namespace gpt
