#include "train/start_point.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

namespace gpt {
namespace {

uint64_t make_run_id() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

int64_t next_branch(const CheckpointList& list) {
  return list.valid.empty() ? 0 : list.valid.front().branch + 1;
}

StartPoint begin_anew(const CheckpointList& list) {
  return {.file = {}, .run_id = make_run_id(), .branch = next_branch(list), .passed_over = list.passed_over};
}

StartPoint go_on_from(const CheckpointFile& file, const CheckpointList& list) {
  StartPoint start{.file = file.path,
                   .step = file.step,
                   .run_id = file.run_id,
                   .from_branch = file.branch,
                   .passed_over = list.passed_over};
  std::error_code ignored;  // files that cannot be compared are different files
  const bool newest =
      !list.valid.empty() && std::filesystem::equivalent(list.valid.front().path, file.path, ignored);
  start.branch = newest ? file.branch : std::max(next_branch(list), file.branch + 1);
  start.parent_step = newest ? read_checkpoint_header(file.path).parent_step : file.step;
  return start;
}

}  // namespace

StartPoint choose_start(const std::string& resume, const std::string& checkpoints) {
  const CheckpointList list = list_checkpoints(checkpoints);
  if (resume == "none") return begin_anew(list);
  if (resume != "auto") {
    validate(std::filesystem::exists(resume), "--resume {}: no such file: use auto, none, or a checkpoint",
             resume);
    validate(!std::filesystem::is_directory(resume),
             "--resume {} is a folder: name a file in its checkpoints/, or give it as --out", resume);
    validate(std::filesystem::is_regular_file(resume),
             "--resume {} is not a regular file: use auto, none, or a checkpoint", resume);
    const CheckpointHeader header = read_checkpoint_header(resume);
    StartPoint start = go_on_from(
        {.path = resume, .step = header.step, .branch = header.branch, .run_id = header.run_id}, list);
    std::error_code ignored;  // a folder that is not there is another one
    start.elsewhere =
        !std::filesystem::equivalent(std::filesystem::absolute(resume).parent_path(), checkpoints, ignored);
    return start;
  }
  if (!list.valid.empty()) return go_on_from(list.valid.front(), list);
  validate(!list.broken, ExitCode::damaged,
           "no checkpoint in {} can be used:\n  {}\nMove them away, name another with --resume FILE, or "
           "start anew "
           "with --resume none",
           checkpoints, fmt::join(list.passed_over, "\n  "));
  return begin_anew(list);
}

std::string to_text(const StartPoint& start) {
  return nlohmann::json{{"file", start.file},
                        {"step", start.step},
                        {"run_id", start.run_id},
                        {"branch", start.branch},
                        {"parent_step", start.parent_step},
                        {"from_branch", start.from_branch},
                        {"elsewhere", start.elsewhere},
                        {"passed_over", start.passed_over}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

StartPoint start_from_text(const std::string& text) {
  const auto object = nlohmann::json::parse(text);
  return {.file = object.at("file"),
          .step = object.at("step"),
          .run_id = object.at("run_id"),
          .branch = object.at("branch"),
          .parent_step = object.at("parent_step"),
          .from_branch = object.at("from_branch"),
          .elsewhere = object.at("elsewhere"),
          .passed_over = object.at("passed_over")};
}

void validate_resume(const CheckpointHeader& header, const TrainOptions& stored, const TrainOptions& now,
                     const Manifest& manifest) {
  std::string differences;
  const auto compare = [&](std::string_view field, const auto& saved, const auto& given) {
    if (saved != given)
      differences += fmt::format("\n  {}: {} in the checkpoint, {} now", field, saved, given);
  };
  compare("layers", header.model.layers, now.model.layers);
  compare("heads", header.model.heads, now.model.heads);
  compare("width", header.model.width, now.model.width);
  compare("context", header.model.context, now.model.context);
  compare("vocab", header.model.vocabulary, now.model.vocabulary);
  compare("bias", header.model.bias, now.model.bias);
  compare("seed", stored.seed, now.seed);
  compare("tokenizer", to_hex(hash_bytes(header.tokenizer)), to_hex(hash_bytes(manifest.tokenizer)));
  compare("dataset", to_hex(header.dataset_fingerprint), to_hex(manifest.fingerprint()));
  validate(differences.empty(),
           "cannot resume: these must stay as they were (packing or resharding anew makes another "
           "dataset).{}\nGive the old values, or start anew in another "
           "--out (or "
           "with --resume none)",
           differences);
}

}  // namespace gpt
