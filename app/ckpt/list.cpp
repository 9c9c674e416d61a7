#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/commands.hpp"
#include "ckpt/json.hpp"
#include "ckpt/table.hpp"
#include "standard_output.hpp"
#include "text/printable.hpp"
#include "train/checkpoint_survey.hpp"

#include <ctime>
#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

std::string time_text(int64_t seconds) {
  const std::time_t moment = seconds;
  std::tm parts{};
  // The year of a hostile file's time may be too large for the calendar.
  return gmtime_r(&moment, &parts) == nullptr ? "?" : fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

std::string parent_text(int64_t step) { return step < 0 ? "-" : fmt::format("{}", step); }

std::vector<std::string> row_of(const SurveyedFile& file, const std::string& chosen) {
  std::vector<std::string> row{printable_line(file.name), name_of(file.kind)};
  if (file.record) {
    const CommitRecord& record = *file.record;
    row.insert(row.end(), {fmt::format("{}", record.step), fmt::format("{}", record.branch),
                           parent_text(record.parent_step), to_hex(record.run_id)});
  } else {
    row.insert(row.end(), 4, "-");
  }
  row.push_back(fmt::format("{}", file.bytes));
  row.push_back(time_text(file.written));
  row.push_back(file.name == chosen ? "<- a start goes on from it" : printable_line(file.why));
  return row;
}

nlohmann::json json_of(const SurveyedFile& file, const std::string& chosen) {
  nlohmann::json json{
      {"name", file.name},   {"kind", name_of(file.kind)},         {"why", file.why},
      {"bytes", file.bytes}, {"written", time_text(file.written)}, {"chosen", file.name == chosen}};
  if (!file.record) return json;
  json["step"] = file.record->step;
  json["branch"] = file.record->branch;
  json["parent_step"] = file.record->parent_step;
  json["run_id"] = to_hex(file.record->run_id);
  json["digest"] = to_hex(file.record->digest);
  return json;
}

/// What `--resume auto` would do here.
std::string outcome(const CheckpointSurvey& survey) {
  if (!survey.chosen.empty()) return {};
  for (const SurveyedFile& file : survey.files)
    if (file.kind == CheckpointKind::broken ||
        (file.kind == CheckpointKind::foreign && file.name.ends_with(".h5")))
      return "No file can be used: a start would stop and say so.\n";
  return "There is no checkpoint: a start would begin anew.\n";
}

}  // namespace

ExitCode list_run(const Arguments& arguments) {
  std::string run;
  bool json = false;
  CommandLine line(
      "gpt_ckpt list RUN: what is in a run's folder of checkpoints\n"
      "Of files that end in .h5 the commit record and all that lies outside the state are verified.",
      "run");
  line.group("Options")("run", required(run, "RUN"), "a run folder, or a folder of checkpoints")(
      "json", option(json, "true|false"), "one JSON object instead of a table");
  if (!parse(line, arguments)) return ExitCode::finished;
  const std::string folder = checkpoints_of(run);
  const CheckpointSurvey survey = survey_checkpoints(folder);
  if (json) {
    nlohmann::json files = nlohmann::json::array();
    for (const SurveyedFile& file : survey.files) files.push_back(json_of(file, survey.chosen));
    const nlohmann::json chosen = survey.chosen.empty() ? nlohmann::json() : nlohmann::json(survey.chosen);
    print_json({{"folder", folder}, {"chosen", chosen}, {"files", std::move(files)}});
    return ExitCode::finished;
  }
  std::vector<std::vector<std::string>> rows{
      {"file", "", "step", "branch", "parent", "run", "bytes", "written", ""}};
  for (const SurveyedFile& file : survey.files) rows.push_back(row_of(file, survey.chosen));
  print("{}{}", rows.size() > 1 ? format_table(rows, {2, 3, 4, 6}) : std::string(), outcome(survey));
  return ExitCode::finished;
}

}  // namespace gpt
