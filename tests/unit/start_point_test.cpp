#include "train/start_point.hpp"

#include "base/error.hpp"
#include "comm/world.hpp"
#include "support/scratch_folder.hpp"
#include "unit/small_dataset.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <functional>
#include <sys/stat.h>

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::says;
using test::ScratchFolder;

constexpr GptConfig tiny{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 5};

World make_world() {
  int argc = 0;
  char** argv = nullptr;
  return {argc, argv};
}

std::string save(const ScratchFolder& folder, int64_t step, int64_t branch, uint64_t run_id,
                 int64_t parent_step = -1) {
  const Layout layout(tiny);
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.5F);
  save_checkpoint(folder.path(),
                  {.step = step,
                   .cursor = step,
                   .skipped = {},
                   .run_id = run_id,
                   .branch = branch,
                   .parent_step = parent_step,
                   .model = tiny,
                   .configuration = "steps = 1\n",
                   .tokenizer = "bytes",
                   .dataset_fingerprint = 1,
                   .dataset_source = "source",
                   .spikes = {},
                   .comm_choice = ""},
                  layout, {{"params", Tensor(values.data(), DType::f32, {layout.size()})}}, make_world());
  return folder / checkpoint_name(step);
}

void break_file(const std::string& file) { test::write_bytes(file, "broken"); }

TEST_CASE("where nothing is, auto and none begin a run of its own") {
  const ScratchFolder folder;
  for (const std::string& path : {folder.path(), folder / "none"})
    for (const char* resume : {"auto", "none"}) {
      const StartPoint first = choose_start(resume, path), second = choose_start(resume, path);
      CHECK(first.file.empty());
      CHECK(first.branch == 0);
      CHECK(first.parent_step == -1);
      CHECK(first.passed_over.empty());
      CHECK(first.run_id != second.run_id);
    }
}

TEST_CASE("auto goes on from the newest, on its branch, as its child was") {
  const ScratchFolder folder;
  save(folder, 10, 0, 7);
  save(folder, 30, 0, 7);
  const std::string newest = save(folder, 20, 1, 7, 10);
  const StartPoint start = choose_start("auto", folder.path());
  CHECK(start.file == newest);
  CHECK(start.run_id == 7);
  CHECK(start.branch == 1);
  CHECK(start.parent_step == 10);
  CHECK(start.from_branch == 1);
  CHECK(!start.elsewhere);
}

TEST_CASE("auto passes over what is broken, and says so") {
  const ScratchFolder folder;
  const std::string good = save(folder, 10, 0, 7);
  const std::string bad = save(folder, 20, 0, 7);
  break_file(bad);
  const StartPoint start = choose_start("auto", folder.path());
  CHECK(start.file == good);
  CHECK(start.branch == 0);
  REQUIRE(start.passed_over.size() == 1);
  CHECK(start.passed_over[0].find(bad) != std::string::npos);
}

TEST_CASE("auto does not begin anew beside a run of which nothing can be read") {
  const ScratchFolder folder;
  const std::string bad = save(folder, 20, 0, 7);
  break_file(bad);
  const Error error = error_of([&] { choose_start("auto", folder.path()); });
  CHECK(error.code() == ExitCode::damaged);
  CHECK(says(error, bad));
  CHECK(says(error, "--resume none"));
  const StartPoint anew = choose_start("none", folder.path());
  CHECK(anew.file.empty());
  CHECK(anew.passed_over.size() == 1);
}

TEST_CASE("a first save that never ended does not stop auto from beginning") {
  const ScratchFolder folder;
  fs::rename(save(folder, 20, 0, 7), folder / "step-00000020.h5.partial");
  const StartPoint start = choose_start("auto", folder.path());
  CHECK(start.file.empty());
  CHECK(start.passed_over.size() == 1);
}

TEST_CASE("none begins a run on a branch after all others, so that auto will follow it") {
  const ScratchFolder folder;
  save(folder, 30, 0, 7);
  save(folder, 10, 3, 7);
  const StartPoint start = choose_start("none", folder.path());
  CHECK(start.file.empty());
  CHECK(start.branch == 4);
  CHECK(start.run_id != 7);
  CHECK(start.parent_step == -1);
  const std::string next = save(folder, 1, start.branch, start.run_id);
  CHECK(choose_start("auto", folder.path()).file == next);
}

TEST_CASE("an older file begins a branch of its run, the newest by name does not") {
  const ScratchFolder folder;
  const std::string older = save(folder, 10, 0, 7), newest = save(folder, 20, 0, 7);
  const StartPoint branch = choose_start(older, folder.path());
  CHECK(branch.file == older);
  CHECK(branch.run_id == 7);
  CHECK(branch.branch == 1);
  CHECK(branch.parent_step == 10);
  CHECK(branch.from_branch == 0);
  CHECK(!branch.elsewhere);
  CHECK(choose_start(newest, folder.path()).branch == 0);
  const std::string detour =
      (fs::path(folder.path()) / ".." / fs::path(folder.path()).filename() / checkpoint_name(20)).string();
  CHECK(choose_start(detour, folder.path()).branch == 0);
}

TEST_CASE("a file from another folder begins a branch above both") {
  const ScratchFolder here, elsewhere;
  const std::string file = save(elsewhere, 10, 5, 9);
  CHECK(choose_start(file, here.path()).branch == 6);
  save(here, 20, 8, 7);
  const StartPoint start = choose_start(file, here.path());
  CHECK(start.branch == 9);
  CHECK(start.run_id == 9);
  CHECK(start.parent_step == 10);
  CHECK(start.from_branch == 5);
  CHECK(start.elsewhere);
  CHECK(choose_start(file, here / "none").elsewhere);
}

TEST_CASE("a named file that is not there or broken is refused, whatever else there is") {
  const ScratchFolder folder;
  const std::string bad = save(folder, 10, 0, 7);
  save(folder, 20, 0, 7);
  break_file(bad);
  const Error broken = error_of([&] { choose_start(bad, folder.path()); });
  CHECK(broken.code() == ExitCode::damaged);
  CHECK(says(broken, bad));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/null")}) {
    const Error special = error_of([&] { choose_start(path, folder.path()); });
    CHECK(special.code() == ExitCode::usage);
    CHECK(says(special, path + " is not a regular file"));
  }
  CHECK(error_of([&] { choose_start(folder.path(), folder.path()); }).code() == ExitCode::usage);
  const Error gone = error_of([&] { choose_start(folder / "gone.h5", folder.path()); });
  CHECK(gone.code() == ExitCode::usage);
  CHECK(says(gone, "gone.h5"));
}

TEST_CASE("a start point survives its text, names that are no UTF-8 excepted") {
  const StartPoint start{.file = "a \"b\"\n.h5",
                         .run_id = 0xfedcba9876543210,
                         .branch = 3,
                         .parent_step = -1,
                         .from_branch = 2,
                         .elsewhere = true,
                         .passed_over = {"one", "two\n"}};
  const StartPoint back = start_from_text(to_text(start));
  CHECK(back.file == start.file);
  CHECK(back.run_id == start.run_id);
  CHECK(back.branch == start.branch);
  CHECK(back.parent_step == start.parent_step);
  CHECK(back.from_branch == start.from_branch);
  CHECK(back.elsewhere == start.elsewhere);
  CHECK(back.passed_over == start.passed_over);
}

/// A checkpoint and the start that fits it.
struct Match {
  CheckpointHeader header;
  TrainOptions stored, now;
  Manifest manifest;

  Match() {
    manifest.tokenizer = "letters";
    manifest.vocabulary = 5;
    manifest.train = {{.file = "a.h5", .tokens = 100, .documents = 1, .checksum = 42}};
    header.model = tiny;
    header.tokenizer = manifest.tokenizer;
    header.dataset_fingerprint = manifest.fingerprint();
    stored.model = now.model = tiny;
  }
  Error check() const {
    return error_of([this] { validate_resume(header, stored, now, manifest); });
  }
};

TEST_CASE("what may change does not stop a resumption") {
  Match match;
  CHECK(match.check().code() == ExitCode::finished);
  match.now.lr = 1e-5;
  match.now.global_batch = 4;
  match.now.micro_batch = 1;
  match.now.steps = 5;
  match.now.save_every = 1;
  match.now.schedule = "linear";
  match.now.clip = 0.0;
  match.now.threads = 3;
  match.now.data = "moved";
  CHECK(match.check().code() == ExitCode::finished);
}

TEST_CASE("each field that must stay is named with both values, and alone") {
  const std::vector<std::pair<std::string, std::function<void(Match&)>>> changes = {
      {"layers: 1 in the checkpoint, 2 now", [](Match& m) { m.now.model.layers = 2; }},
      {"heads: 1 in the checkpoint, 2 now", [](Match& m) { m.now.model.heads = 2; }},
      {"width: 8 in the checkpoint, 16 now", [](Match& m) { m.now.model.width = 16; }},
      {"context: 4 in the checkpoint, 3 now", [](Match& m) { m.now.model.context = 3; }},
      {"vocab: 5 in the checkpoint, 6 now", [](Match& m) { m.now.model.vocabulary = 6; }},
      {"bias: true in the checkpoint, false now", [](Match& m) { m.now.model.bias = false; }},
      {"seed: 1337 in the checkpoint, 1 now", [](Match& m) { m.now.seed = 1; }},
      {"tokenizer: ", [](Match& m) { m.header.tokenizer = "others"; }},
      {"dataset: ", [](Match& m) { m.manifest.train[0].checksum = 43; }},
  };
  Match all;
  for (const auto& [text, change] : changes) {
    CAPTURE(text);
    Match match;
    change(match);
    change(all);
    const Error error = match.check();
    CHECK(error.code() == ExitCode::usage);
    CHECK(says(error, text));
    const std::string message = error.what();
    CHECK(message.find(" in the checkpoint", message.find(" in the checkpoint") + 1) == std::string::npos);
  }
  const Error error = all.check();
  for (const auto& [text, change] : changes) CHECK(says(error, text));
}

}  // namespace
}  // namespace gpt
