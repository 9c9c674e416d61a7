#include "train/checkpoint.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "comm/shared_folder.hpp"
#include "comm/world.hpp"
#include "h5/h5.hpp"
#include "support/errors.hpp"
#include "support/run_alone.hpp"
#include "support/scratch_folder.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <functional>
#include <optional>
#include <string>
#include <sys/mount.h>
#include <sys/resource.h>
#include <vector>

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::bytes_of;
using test::failure;
using test::says;
using test::SharedFolder;

// Sections of 1024 elements leave padding in the middle; the state of the larger one spans three blocks of
// 4 MiB, the last of them partial.
constexpr GptConfig small{
    .layers = 2, .heads = 2, .width = 16, .context = 9, .vocabulary = 61, .dropout = 0.125F};
constexpr GptConfig large{
    .layers = 3, .heads = 4, .width = 256, .context = 33, .vocabulary = 777, .bias = false};

World make_world() {
  int argc = 0;
  char** argv = nullptr;
  return {argc, argv};
}

CheckpointHeader make_header(const GptConfig& model, int64_t step) {
  CheckpointHeader header{.step = step,
                          .last_update = step - 1,
                          .cursor = (int64_t{1} << 40) + step,
                          .skipped = {{3, 5}, {7, 7}, {9, 100}},
                          .run_id = 0xfedcba9876543210,
                          .branch = 2,
                          .parent_step = 4,
                          .model = model,
                          .configuration = "[train]\nlr = 1e-3\n",
                          .tokenizer = {},
                          .dataset_fingerprint = 0x8000000000000001,
                          .dataset_source = "",
                          .spikes = "{\"a spike\": 1.5}",
                          .comm_choice = "{\"a choice\": 1}"};
  header.tokenizer = std::string("\0binary\xff", 8) + std::string(5000, 't');
  return header;
}

/// Flat buffers that every rank fills alike.
struct State {
  explicit State(const Layout& layout) {
    for (size_t i = 0; i < values.size(); ++i)
      for (int64_t k = 0; k < layout.size(); ++k)
        values[i].push_back(static_cast<float>(k % 65521) + 0.25F * static_cast<float>(i));
  }
  std::vector<StateTensor> tensors() {
    std::vector<StateTensor> result;
    for (size_t i = 0; i < values.size(); ++i)
      result.push_back(
          {names[i], Tensor(values[i].data(), DType::f32, {static_cast<int64_t>(values[i].size())})});
    return result;
  }
  std::vector<std::string> names = {"params", "m", "v"};
  std::vector<std::vector<float>> values{3};
};

/// One that nobody changes: filling it takes longer than saving it.
State& state_of(const GptConfig& model) {
  static State of_small{Layout(small)}, of_large{Layout(large)};
  return model == small ? of_small : of_large;
}

TEST_CASE("header and state come back on every rank") {
  const World world = make_world();
  for (const GptConfig& model : {small, large}) {
    const SharedFolder folder(world);
    const Layout layout(model);
    State state(layout);
    const CheckpointHeader written = make_header(model, 20);
    save_checkpoint(folder.path + "/a", written, layout, state.tensors(), world);

    const std::string file = folder.path + "/a/step-00000020.h5";
    CHECK_FALSE(checkpoint_fault(file).has_value());
    const CheckpointHeader header = read_checkpoint_header(file);
    CHECK(header.step == written.step);
    CHECK(header.last_update == written.last_update);
    CHECK(header.cursor == written.cursor);
    CHECK(header.skipped == written.skipped);
    CHECK(header.spikes == written.spikes);
    CHECK(header.run_id == written.run_id);
    CHECK(header.branch == written.branch);
    CHECK(header.parent_step == written.parent_step);
    CHECK(header.model == written.model);
    CHECK(header.configuration == written.configuration);
    CHECK(header.tokenizer == written.tokenizer);
    CHECK(header.dataset_fingerprint == written.dataset_fingerprint);
    CHECK(header.dataset_source == written.dataset_source);
    CHECK(header.comm_choice == written.comm_choice);

    State loaded(layout);
    for (auto& values : loaded.values) std::ranges::fill(values, -1.0F);
    load_state(file, layout, loaded.tensors());
    CHECK(loaded.values == state.values);
    loaded.values.back().assign(loaded.values.back().size(), -1.0F);
    load_state(file, layout, {loaded.tensors().back()});
    CHECK(loaded.values == state.values);

    const H5File h5 = H5File::open(file);
    for (const Parameter& parameter : layout.all())
      CHECK(h5.shape_of("parameters/" + parameter.name) == parameter.shape);
  }
}

TEST_CASE("a file is the same bytes whatever the number of ranks") {
  const World world = make_world();
  for (const bool is_large : {false, true}) {
    const SharedFolder folder(world);
    const GptConfig model = is_large ? large : small;
    const Layout layout(model);
    State& state = state_of(model);
    save_checkpoint(folder.path + "/many", make_header(model, 7), layout, state.tensors(), world);
    if (!world.is_root()) continue;
    CHECK(test::run_alone("child: one rank saves", "GPT_TEST_FOLDER='" + folder.path +
                                                       "/one' GPT_TEST_LARGE=" + std::to_string(is_large)));
    const std::string many = bytes_of(folder.path + "/many/step-00000007.h5");
    CHECK(many.size() > 3 * sizeof(float) * static_cast<size_t>(layout.size()));
    CHECK(many == bytes_of(folder.path + "/one/step-00000007.h5"));
  }
}

TEST_CASE("child: one rank saves" * doctest::skip()) {
  const World world = make_world();
  REQUIRE(world.size() == 1);
  const GptConfig model = std::getenv("GPT_TEST_LARGE") == std::string("1") ? large : small;
  const Layout layout(model);
  State& state = state_of(model);
  save_checkpoint(std::getenv("GPT_TEST_FOLDER"), make_header(model, 7), layout, state.tensors(), world);
}

TEST_CASE("a flipped byte in any block of the state is found and named") {
  const World world = make_world();
  const SharedFolder folder(world);
  const Layout layout(large);
  State state(layout);
  save_checkpoint(folder.path, make_header(large, 1), layout, state.tensors(), world);
  const std::string file = folder.path + "/step-00000001.h5";
  if (!world.is_root()) return;

  const int64_t offset = H5File::open(file).open_dataset("state/m").file_offset();
  const std::string whole = bytes_of(file);
  const int64_t bytes = layout.size() * 4;
  for (const int64_t at : {int64_t{0}, (int64_t{4} << 20) - 1, int64_t{4} << 20, bytes - 1}) {
    std::string damaged = whole;
    damaged[static_cast<size_t>(offset + at)] ^= 1;
    test::write_bytes(file, damaged);
    CHECK_FALSE(checkpoint_fault(file).has_value());
    CHECK_NOTHROW(read_checkpoint_header(file));
    const std::string message =
        failure(ExitCode::damaged, [&] { load_state(file, layout, state.tensors()); });
    says(message, file + ":state/m: block " + std::to_string(at >> 22) + " of 3 is damaged");
    CHECK_NOTHROW(load_state(file, layout, {state.tensors().front()}));
  }
}

TEST_CASE("state of another size or optimizer is refused") {
  const World world = make_world();
  const SharedFolder folder(world);
  const Layout layout(small), other(large);
  State state(layout), wrong(other);
  save_checkpoint(folder.path, make_header(small, 1), layout, state.tensors(), world);
  const std::string file = folder.path + "/step-00000001.h5";
  says(failure(ExitCode::damaged, [&] { load_state(file, other, wrong.tensors()); }), ":state/params: ");
  std::vector<StateTensor> tensors = state.tensors();
  tensors[1].name = "momentum";
  says(failure(ExitCode::usage, [&] { load_state(file, layout, tensors); }), "holds no state 'momentum'");
}

TEST_CASE("names in the way are set aside, never overwritten") {
  const World world = make_world();
  const SharedFolder folder(world);
  const Layout layout(small);
  State& state = state_of(small);
  const std::string file = folder.path + "/step-00000003.h5";
  if (world.is_root()) {
    test::write_bytes(file, "first");
    for (const char* left : {".partial", ".partial.set-aside-1"}) test::write_bytes(file + left, "stale");
    test::write_bytes(folder.path + "/step-00000002.h5.partial", "stale");
    for (const char* other : {"/notes.partial", "/step-00000001.h5.partially"})
      test::write_bytes(folder.path + other, "mine");
    test::write_bytes(file + ".set-aside-1", "earlier");
  }
  world.barrier();
  save_checkpoint(folder.path, make_header(small, 3), layout, state.tensors(), world);
  CHECK_FALSE(checkpoint_fault(file).has_value());
  CHECK(bytes_of(file + ".set-aside-1") == "earlier");
  CHECK(bytes_of(file + ".set-aside-2") == "first");
  for (const char* left : {"3.h5.partial", "3.h5.partial.set-aside-1", "2.h5.partial"})
    CHECK_FALSE(fs::exists(folder.path + "/step-0000000" + left));
  for (const char* other : {"/notes.partial", "/step-00000001.h5.partially"})
    CHECK(bytes_of(folder.path + other) == "mine");

  world.barrier();  // a folder can have no second name
  if (world.is_root()) {
    fs::remove(file);
    fs::create_directory(file);
  }
  world.barrier();
  save_checkpoint(folder.path, make_header(small, 3), layout, state.tensors(), world);
  CHECK_FALSE(checkpoint_fault(file).has_value());
  CHECK(fs::is_directory(file + ".set-aside-3"));
}

/// Saves step 1, then expects step 2 to fail on all ranks alike, and the older file to stay.
std::string failed_save(const World& world, const std::string& path, const GptConfig& model) {
  const Layout layout(model);
  State& state = state_of(model);
  std::string message;
  bool shared = false;
  try {
    save_checkpoint(path, make_header(model, 2), layout, state.tensors(), world);
  } catch (const SharedError& error) {
    shared = true;
    message = error.what();
    CHECK(error.code() == ExitCode::saving_failed);
  }
  CHECK(shared);
  for (const std::string& other : world.gather(message)) CHECK(other == message);
  says(message, "cannot save " + path + "/step-00000002.h5: ");
  CHECK_FALSE(fs::exists(path + "/step-00000002.h5"));
  CHECK_FALSE(fs::exists(path + "/step-00000002.h5.partial"));
  CHECK(read_checkpoint_header(path + "/step-00000001.h5").step == 1);
  CHECK_NOTHROW(load_state(path + "/step-00000001.h5", layout, state.tensors()));
  return message;
}

void save_first(const World& world, const std::string& path, const GptConfig& model) {
  const Layout layout(model);
  State& state = state_of(model);
  save_checkpoint(path, make_header(model, 1), layout, state.tensors(), world);
}

TEST_CASE("an error at any point of saving reaches all ranks and leaves the older file alone") {
  const World world = make_world();
  const SharedFolder folder(world);
  save_first(world, folder.path, large);
  const int last = world.size() - 1;
  for (const std::string& fault :
       {fmt::format("save.write:throw@hit=1,rank={}", last), std::string("save.commit:throw@hit=1"),
        std::string("save.rename:throw@hit=1")}) {
    CAPTURE(fault);
    setenv("GPT_FAULT", fault.c_str(), 1);
    configure_faults(world.rank());
    says(failed_save(world, folder.path, large), "fault injected at '" + fault.substr(0, fault.find(':')));
    unsetenv("GPT_FAULT");
  }
  const Layout layout(large);
  State& state = state_of(large);
  CHECK_NOTHROW(save_checkpoint(folder.path, make_header(large, 2), layout, state.tensors(), world));
}

TEST_CASE("an error of opening or closing together is this rank's own, for the program to end all by") {
  const World world = make_world();
  const SharedFolder folder(world);
  const Layout layout(small);
  State& state = state_of(small);
  for (const std::string point : {"save.open", "save.close"}) {
    CAPTURE(point);
    // On all ranks, so that none waits for another in here.
    setenv("GPT_FAULT", (point + ":throw@hit=1").c_str(), 1);
    configure_faults(world.rank());
    unsetenv("GPT_FAULT");
    bool shared = false;
    std::string message;
    try {
      save_checkpoint(folder.path, make_header(small, 2), layout, state.tensors(), world);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::saving_failed);
      shared = dynamic_cast<const SharedError*>(&error) != nullptr;
      message = error.what();
    }
    says(message, "cannot save " + folder.path + "/step-00000002.h5: fault injected at '" + point);
    CHECK(shared == (world.size() == 1));
    CHECK_FALSE(fs::exists(folder.path + "/step-00000002.h5"));
    world.barrier();
  }
  CHECK_NOTHROW(save_checkpoint(folder.path, make_header(small, 3), layout, state.tensors(), world));
}

TEST_CASE("a file that may not grow large enough is refused before anything is written") {
  const World world = make_world();
  const SharedFolder folder(world);
  save_first(world, folder.path, small);
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small_limit = before;
  small_limit.rlim_cur = 1 << 16;
  if (world.rank() == world.size() - 1) setrlimit(RLIMIT_FSIZE, &small_limit);
  const std::string message = failed_save(world, folder.path, small);
  setrlimit(RLIMIT_FSIZE, &before);
  says(message, "files of this process may have 65536 (ulimit -f)");
}

TEST_CASE("a full disk is found before any data is written") {
  const World world = make_world();
  const SharedFolder folder(world);
  const std::string path = folder.path + "/disk";
  int mounted = 0;
  if (world.is_root()) {
    fs::create_directory(path);
    mounted = mount("tmpfs", path.c_str(), "tmpfs", 0, "size=60m,mode=700") == 0;
  }
  mounted = std::stoi(world.broadcast(std::to_string(mounted)));
  if (mounted == 0) {
    MESSAGE("not run: a small file system cannot be mounted here");
    return;
  }
  save_first(world, path, large);
  const int64_t used = static_cast<int64_t>(fs::file_size(path + "/step-00000001.h5"));
  // Room for the structure but not for the state, then for not even the structure.
  for (const int64_t free : {int64_t{8} << 20, int64_t{4} << 10, int64_t{0}}) {
    CAPTURE(free);
    if (world.is_root()) {
      const std::string filler((size_t{60} << 20) - static_cast<size_t>(used + free), 'f');
      test::write_bytes(path + "/filler", filler);
    }
    world.barrier();
    says(failed_save(world, path, large), "No space left on device");
    world.barrier();
    if (world.is_root()) fs::remove(path + "/filler");
  }
  world.barrier();
  const Layout layout(small);
  State& state = state_of(small);
  CHECK_NOTHROW(save_checkpoint(path, make_header(small, 5), layout, state.tensors(), world));
  world.barrier();
  if (world.is_root()) CHECK(umount2(path.c_str(), MNT_DETACH) == 0);
}

TEST_CASE("a folder that cannot be made is named on all ranks") {
  const World world = make_world();
  const SharedFolder folder(world);
  if (world.is_root()) test::write_bytes(folder.path + "/file", "");
  world.barrier();
  const Layout layout(small);
  State& state = state_of(small);
  const std::string message = failure(ExitCode::saving_failed, [&] {
    save_checkpoint(folder.path + "/file/checkpoints", make_header(small, 1), layout, state.tensors(), world);
  });
  says(message, "cannot make the folder " + folder.path + "/file/checkpoints");
}

}  // namespace
}  // namespace gpt
