#include "base/error.hpp"
#include "ckpt/commands.hpp"
#include "ckpt/json.hpp"
#include "standard_output.hpp"
#include "terminal_progress.hpp"
#include "train/checkpoint_format.hpp"
#include "train/checkpoint_verify.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

namespace fs = std::filesystem;

struct Verified {
  std::string file;
  CheckpointExamination found;
};

/// Files that are meant: those of a run that have a checkpoint's name, or the one that is named.
std::vector<std::string> files_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    validate(fs::exists(path, ignored), "'{}': there is no such checkpoint or run folder", path);
    return {path};
  }
  const std::string folder = checkpoints_of(path);
  std::vector<std::string> files;
  for (const std::string& name : list_names(folder))
    if (name.ends_with(".h5")) files.push_back(folder + "/" + name);
  validate(!files.empty(), "'{}' holds no checkpoint", path);
  return files;
}

/// Nothing for a file that a run deleted meanwhile.
std::vector<Verified> verify(const std::vector<std::string>& paths) {
  std::vector<Verified> result;
  TerminalProgress bar;
  for (const std::string& path : paths) {
    for (const std::string& file : files_of(path)) {
      CheckpointExamination found = examine_checkpoint(
          file, [&](std::string_view phase, int64_t done, int64_t total) { bar(phase, done, total); });
      std::error_code ignored;
      const bool gone =
          !found.damage.empty() && file != path && !fs::exists(fs::symlink_status(file, ignored));
      if (!gone) result.push_back({file, std::move(found)});
    }
  }
  return result;
}

nlohmann::json json_of(const Verified& file) {
  nlohmann::json damage = nlohmann::json::array();
  for (const CheckpointDamage& item : file.found.damage) {
    nlohmann::json entry;
    entry["what"] = item.what;
    if (!item.state.empty()) {
      entry["state"] = item.state;
      entry["block"] = item.block;
      entry["parameters"] = item.parameters;
    }
    damage.push_back(std::move(entry));
  }
  return {{"file", file.file},         {"whole", file.found.damage.empty()}, {"step", file.found.step},
          {"bytes", file.found.bytes}, {"blocks", file.found.blocks},        {"damage", std::move(damage)}};
}

}  // namespace

ExitCode verify_files(const Arguments& arguments) {
  std::vector<std::string> paths;
  bool json = false;
  CommandLine line(
      "gpt_ckpt verify FILE|RUN...: read every bit of checkpoints and compare it with what was committed\n"
      "Of a run folder, all files whose names end in .h5. Exit code 11 if anything is damaged.",
      "files");
  line.group("Options")("files", list(paths, "FILE|RUN..."), "checkpoints, or run folders")(
      "json", option(json, "true|false"), "a JSON array with an object for each file instead of lines");
  if (!parse(line, arguments)) return ExitCode::finished;
  validate(!paths.empty(), "no file: name a checkpoint or a run folder");

  const std::vector<Verified> files = verify(paths);
  std::string problems;
  size_t damaged = 0;
  for (const Verified& file : files) {
    if (!file.found.damage.empty()) ++damaged;
    for (const CheckpointDamage& damage : file.found.damage) problems += "\n  " + damage.what;
    if (!json && file.found.damage.empty())
      print("{} is whole: step {}, {} bytes, {} blocks of state\n", file.file, file.found.step,
            file.found.bytes, file.found.blocks);
  }
  if (json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Verified& file : files) all.push_back(json_of(file));
    print_json(all);
  }
  check_output();
  validate(damaged == 0, ExitCode::damaged, "{} of {} file{} {} damaged:{}", damaged, files.size(),
           files.size() == 1 ? "" : "s", damaged == 1 ? "is" : "are", problems);
  return ExitCode::finished;
}

}  // namespace gpt
