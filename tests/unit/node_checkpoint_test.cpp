#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/world.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"
#include "train/header_text.hpp"
#include "train/node_checkpoint_choice.hpp"
#include "train/node_checkpoint_folder.hpp"
#include "train/node_checkpoint_record.hpp"
#include "train/node_checkpoint_room.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::failure;
using test::says;
using test::ScratchFolder;

constexpr GptConfig tiny{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocabulary = 5};
constexpr uint64_t run_id = 7;

World make_world() {
  int argc = 0;
  char** argv = nullptr;
  return {argc, argv};
}

/// A valid checkpoint in a folder that is made.
std::string save(const std::string& folder, int64_t step, int64_t branch = 0) {
  const Layout layout(tiny);
  std::vector<float> values(static_cast<size_t>(layout.size()), 0.5F);
  CheckpointHeader header;
  header.step = step;
  header.run_id = run_id;
  header.branch = branch;
  header.model = tiny;
  save_checkpoint(folder, header, layout, {{"params", Tensor(values.data(), DType::f32, {layout.size()})}},
                  make_world());
  return folder + "/" + checkpoint_name(step);
}

NodeCheckpoint checkpoint(uint64_t start, int64_t step, uint64_t of_run = run_id) {
  return {.file = {.path = {}, .step = step, .branch = 0, .run_id = of_run}, .start = start};
}

NodeOffer offer(int rank, int64_t branch, int64_t step) {
  return {.rank = rank,
          .node = rank,
          .host = "n",
          .file = {.path = {}, .step = step, .branch = branch, .run_id = run_id}};
}

StartPoint on_disk(int64_t branch, int64_t step) {
  StartPoint start;
  start.file = "disk.h5";
  start.step = step;
  start.branch = branch;
  return start;
}

std::vector<int64_t> steps_of(const NodeCheckpointList& list) {
  std::vector<int64_t> steps;
  for (const NodeCheckpoint& found : list.valid) steps.push_back(found.file.step);
  std::ranges::sort(steps);
  return steps;
}

TEST_CASE("the newest that a node holds is taken over what the disk has only where it is newer") {
  const std::vector<NodeOffer> offers = {offer(0, 0, 30), offer(1, 1, 20), offer(2, 1, 25), offer(3, 1, 25)};
  CHECK(newest_offer(offers, {}) == size_t{2});
  CHECK(newest_offer(offers, on_disk(1, 24)) == size_t{2});
  CHECK(newest_offer(offers, on_disk(0, 90)) == size_t{2});
  CHECK_FALSE(newest_offer(offers, on_disk(1, 25)).has_value());
  CHECK_FALSE(newest_offer(offers, on_disk(2, 5)).has_value());
  CHECK_FALSE(newest_offer({}, {}).has_value());
}

TEST_CASE("what a later start left behind does not count, nor what another run wrote") {
  NodeCheckpointRecord record;
  record.add("/folder", run_id, {.id = 1, .step = 0});
  CHECK(record.counts(checkpoint(1, 45)));
  CHECK_FALSE(record.counts(checkpoint(2, 45)));
  CHECK_FALSE(record.counts(checkpoint(1, 45, run_id + 1)));

  record.add("/folder", run_id, {.id = 2, .step = 45});  // went on from that one
  CHECK(record.counts(checkpoint(1, 45)));
  CHECK_FALSE(record.counts(checkpoint(1, 46)));
  record.add("/folder", run_id, {.id = 3, .step = 20});  // the node with it was lost
  CHECK_FALSE(record.counts(checkpoint(1, 45)));
  CHECK_FALSE(record.counts(checkpoint(2, 50)));
  CHECK(record.counts(checkpoint(1, 20)));
  CHECK(record.counts(checkpoint(3, 21)));

  record.add("/other", run_id + 1, {.id = 4, .step = 0});
  CHECK(record.starts.size() == 1);
  CHECK_FALSE(record.counts(checkpoint(3, 21)));
  CHECK(record.counts(checkpoint(4, 21, run_id + 1)));
}

TEST_CASE("a record is what was written, and of many starts the newest are remembered") {
  NodeCheckpointRecord record;
  for (uint64_t id = 1; id <= 300; ++id)
    record.add("/dev/shm/\"a\"", ~uint64_t{0}, {.id = ~id, .step = static_cast<int64_t>(id)});
  CHECK(record.starts.size() == 256);
  CHECK(record.starts.back().id == ~uint64_t{300});
  CHECK(node_record_from_text(to_text(record)) == record);
  for (const char* text : {"", "{", "[]", R"({"folder":"a","run_id":"b","starts":[]})", R"({"run_id":1})"})
    says(failure(ExitCode::damaged, [&] { node_record_from_text(text); }), "it is damaged");
}

TEST_CASE("a header is the same for ranks that do not see the file") {
  CheckpointHeader header;
  header.step = 5;
  header.last_update = 4;
  header.cursor = 50;
  header.skipped = {{1, 2}, {30, 40}};
  header.run_id = ~uint64_t{0};
  header.branch = 3;
  header.parent_step = 2;
  header.model = tiny;
  header.model.dropout = 0.1F;
  header.configuration = "lr = 1\n";
  header.tokenizer = std::string("\xff\0\x80 bytes", 9);
  header.dataset_fingerprint = 1;
  header.dataset_source = "\xe4";
  header.spikes = "{}";
  header.comm_choice = "ring";
  const CheckpointHeader back = header_from_text(to_text(header));
  CHECK(back.step == header.step);
  CHECK(back.last_update == header.last_update);
  CHECK(back.cursor == header.cursor);
  CHECK(back.skipped == header.skipped);
  CHECK(back.run_id == header.run_id);
  CHECK(back.branch == header.branch);
  CHECK(back.parent_step == header.parent_step);
  CHECK(back.model == header.model);
  CHECK(back.configuration == header.configuration);
  CHECK(back.tokenizer == header.tokenizer);
  CHECK(back.dataset_fingerprint == header.dataset_fingerprint);
  CHECK(back.dataset_source == header.dataset_source);
  CHECK(back.spikes == header.spikes);
  CHECK(back.comm_choice == header.comm_choice);
}

TEST_CASE("a run's folder in memory follows the run folder's place, however that is written") {
  const ScratchFolder folder;
  fs::create_directory(folder / "run");
  fs::create_directory_symlink(folder / "run", folder / "link");
  const std::string name = node_checkpoint_folder("/dev/shm", folder / "run");
  CHECK(name.starts_with("/dev/shm/gpt_mpi-"));
  for (const char* other : {"run/", "link", "./x/../run"})
    CHECK(node_checkpoint_folder("/dev/shm", folder / other) == name);
  CHECK(node_checkpoint_folder("/dev/shm", folder / "run2") != name);
}

TEST_CASE("only a folder of this user alone is trusted") {
  const ScratchFolder folder;
  const std::string path = folder / "own";
  CHECK_FALSE(is_own_folder(path));
  make_own_folder(path);
  make_own_folder(path);
  CHECK(is_own_folder(path));
  for (const mode_t mode : {0710, 0701, 0777}) {
    CHECK(chmod(path.c_str(), mode) == 0);
    says(failure(ExitCode::usage, [&] { is_own_folder(path); }), "of this user alone");
    CHECK_FALSE(failure(ExitCode::usage, [&] { make_own_folder(path); }).empty());
    CHECK(node_checkpoint_bytes(path) == 0);
  }
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "link");
  CHECK_FALSE(failure(ExitCode::usage, [&] { is_own_folder(folder / "link"); }).empty());
  test::write_bytes(folder / "file", "x");
  CHECK_FALSE(failure(ExitCode::usage, [&] { is_own_folder(folder / "file"); }).empty());
}

TEST_CASE("a node finds its own, the last one of a host also what larger layouts left") {
  const ScratchFolder folder;
  const std::string base = folder / "base";
  CHECK(list_node_checkpoints(base, {}).valid.empty());
  make_own_folder(base);
  save(node_start_folder(base, 1, 0), 10);
  save(node_start_folder(base, 2, 0), 20);
  save(node_start_folder(base, 2, 1), 30);
  save(node_start_folder(base, 2, 2), 40);
  const std::string torn = save(node_start_folder(base, 3, 0), 50);
  fs::resize_file(torn, fs::file_size(torn) / 2);
  save(base + "/something-else", 60);

  const NodeCheckpointList first = list_node_checkpoints(base, {.index = 0, .last = false});
  CHECK(steps_of(first) == std::vector<int64_t>{10, 20});
  REQUIRE(first.passed_over.size() == 1);
  says(first.passed_over[0], torn);
  CHECK(steps_of(list_node_checkpoints(base, {.index = 1, .last = true})) == std::vector<int64_t>{30, 40});
  CHECK(steps_of(list_node_checkpoints(base, {.index = 0, .last = true})) ==
        std::vector<int64_t>{10, 20, 30, 40});
  for (const NodeCheckpoint& found : first.valid)
    CHECK(found.start == (found.file.step == 10 ? uint64_t{1} : uint64_t{2}));
  CHECK(node_checkpoint_bytes(base) > 0);
}

TEST_CASE("cleaning leaves what other nodes have, and the one that is gone on from") {
  const ScratchFolder folder;
  const std::string base = folder / "base";
  CHECK_NOTHROW(remove_node_checkpoints(base, {}, ""));
  make_own_folder(base);
  const std::string old = save(node_start_folder(base, 1, 0), 10);
  const std::string kept = save(node_start_folder(base, 2, 0), 20);
  test::write_bytes(kept + ".partial", "cut off");
  const std::string other = save(node_start_folder(base, 2, 1), 30);

  remove_node_checkpoints(base, {.index = 0, .last = false}, kept);
  CHECK_FALSE(fs::exists(node_start_folder(base, 1, 0)));
  CHECK(fs::exists(kept));
  CHECK_FALSE(fs::exists(kept + ".partial"));
  CHECK(fs::exists(other));
  remove_node_checkpoints(base, {.index = 0, .last = false}, "");
  CHECK_FALSE(fs::exists(kept));
  CHECK(fs::exists(other));
  remove_node_checkpoints(base, {.index = 0, .last = true}, "");
  CHECK_FALSE(fs::exists(base));
}

TEST_CASE("a place that is no memory file system is refused") {
  says(failure(ExitCode::usage, [] { validate_memory_folder("/proc"); }), "no memory file system");
  says(failure(ExitCode::usage, [] { validate_memory_folder("/none"); }), "--memory-folder /none");
}

TEST_CASE("the estimate of what a node keeps covers two checkpoints as they are") {
  const ScratchFolder folder;
  const auto bytes = static_cast<int64_t>(fs::file_size(save(folder / "run", 1)));
  const int64_t estimate = node_checkpoints_size(Layout(tiny), 1);
  CHECK(estimate >= 2 * bytes);
  CHECK(estimate <= 2 * bytes + (int64_t{6} << 20));
}

}  // namespace
}  // namespace gpt
