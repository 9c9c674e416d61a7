#include "train/journal.hpp"

#include "base/error.hpp"
#include "support/scratch_folder.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace gpt {
namespace {

using nlohmann::json;

/// The lines of a file that are whole events; `others` counts the rest.
std::vector<json> events(const std::string& path, int* others = nullptr) {
  std::istringstream text(test::bytes_of(path));
  std::vector<json> found;
  for (std::string line; std::getline(text, line);) {
    json event = json::parse(line, nullptr, false);
    if (event.is_object())
      found.push_back(std::move(event));
    else if (others != nullptr)
      ++*others;
  }
  return found;
}

TEST_CASE("events are one line each, with every field") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log.jsonl";
  {
    Journal journal(path);
    journal.start(10, 1, 2, 1000, 20, 12,
                  {{"a GPU", "GPU-1"}, {"a GPU", "GPU-2"}, {"another", "GPU-3"}, {"CPU", ""}});
    journal.resume(10, 4, "some \"file\"");
    journal.step({.step = 11,
                  .loss = 0.1,
                  .learning_rate = 3e-4,
                  .grad_norm = 1.5,
                  .tokens = 4224,
                  .seconds = 0.25,
                  .data_seconds = 0.125,
                  .tokens_per_second = 1536.0});
    journal.eval(12, 2.5);
    SaveEnd end;
    end.step = 12;
    end.seconds = 0.5;
    end.verifying = 0.25;
    journal.save(end, 0.125);
    end.failure = "no room";
    journal.save(end, 0.0625);
    journal.memory_save({.step = 12, .nodes = 1, .seconds = 0.5, .stall = 0.25, .reason = "no room"});
    journal.memory({.parameters = 1,
                    .gradients = 2,
                    .optimizer = 3,
                    .tree = 4,
                    .activations = 5,
                    .scratch = 7,
                    .libraries = 8,
                    .gathering = 9,
                    .saving = 6,
                    .node_checkpoints = 10});
    journal.end(20, 5000, 1000);
  }
  const std::vector<json> all = events(path);
  REQUIRE(all.size() == 9);
  CHECK(all[0] == json{{"event", "start"},
                       {"attempt", 1},
                       {"step", 10},
                       {"branch", 1},
                       {"ranks", 4},
                       {"nodes", 2},
                       {"steps", 20},
                       {"parameters", 1000},
                       {"global_batch", 12},
                       {"devices",
                        {{{"ranks", {0, 1}}, {"name", "a GPU"}, {"uuids", {"GPU-1", "GPU-2"}}},
                         {{"ranks", {2, 2}}, {"name", "another"}, {"uuids", json::array({"GPU-3"})}},
                         {{"ranks", {3, 3}}, {"name", "CPU"}}}}});
  CHECK(all[1] ==
        json{{"event", "resume"}, {"attempt", 1}, {"step", 10}, {"ranks", 4}, {"file", "some \"file\""}});
  CHECK(all[2] == json{{"event", "step"},
                       {"attempt", 1},
                       {"step", 11},
                       {"loss", 0.1},
                       {"lr", 3e-4},
                       {"grad_norm", 1.5},
                       {"tokens", 4224},
                       {"step_seconds", 0.25},
                       {"data_seconds", 0.125},
                       {"tokens_per_second", 1536.0}});
  CHECK(all[3] == json{{"event", "eval"}, {"attempt", 1}, {"step", 12}, {"val_loss", 2.5}});
  CHECK(all[4] == json{{"event", "save"},
                       {"attempt", 1},
                       {"step", 12},
                       {"seconds", 0.5},
                       {"stall_seconds", 0.125},
                       {"verify_seconds", 0.25}});
  CHECK(all[5] == json{{"event", "save_failed"},
                       {"attempt", 1},
                       {"step", 12},
                       {"reason", "no room"},
                       {"stall_seconds", 0.0625}});
  CHECK(all[6] == json{{"event", "memory_save"},
                       {"attempt", 1},
                       {"step", 12},
                       {"nodes", 1},
                       {"seconds", 0.5},
                       {"stall_seconds", 0.25},
                       {"reason", "no room"}});
  CHECK(all[7] == json{{"event", "memory"},
                       {"attempt", 1},
                       {"parameter_bytes", 1},
                       {"gradient_bytes", 2},
                       {"optimizer_bytes", 3},
                       {"subtree_bytes", 4},
                       {"activation_bytes", 5},
                       {"scratch_bytes", 7},
                       {"library_bytes", 8},
                       {"gathering_bytes", 9},
                       {"saving_bytes", 6},
                       {"memory_checkpoint_bytes", 10}});
  CHECK(all[8] == json{{"event", "end"},
                       {"attempt", 1},
                       {"step", 20},
                       {"peak_bytes", 5000},
                       {"peak_bytes_per_parameter", 5.0}});
}

TEST_CASE("comparisons of ranks and intervals of saves are logged") {
  const test::ScratchFolder folder;
  {
    Journal journal(folder / "log.jsonl");
    journal.save_interval(7, 12.5, 0.25, 3600);
    journal.replicas(8, 0.5, {});
    journal.replicas(9, 0.5, ReplicaDifference{.parameter = "wte.weight", .ranks = {1, 3}, .text = "a text"});
  }
  const std::vector<json> all = events(folder / "log.jsonl");
  REQUIRE(all.size() == 3);
  CHECK(all[0] == json{{"event", "save_interval"},
                       {"attempt", 1},
                       {"step", 7},
                       {"seconds", 12.5},
                       {"cost_seconds", 0.25},
                       {"mtbf_seconds", 3600.0}});
  CHECK(all[1] == json{{"event", "replicas"}, {"attempt", 1}, {"step", 8}, {"seconds", 0.5}});
  CHECK(all[2] == json{{"event", "replicas"},
                       {"attempt", 1},
                       {"step", 9},
                       {"seconds", 0.5},
                       {"parameter", "wte.weight"},
                       {"ranks", {1, 3}}});
}

TEST_CASE("of a GPU what is known is logged, and nothing else") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log.jsonl";
  {
    Journal journal(path);
    journal.step({.step = 1});
    journal.step({.step = 2, .mfu = 0.5});
    journal.step({.step = 3,
                  .gpu = {.memory_bytes = 0x1p34,
                          .process_bytes = 0x1p33,
                          .watts = 412.5,
                          .celsius = 61,
                          .sm_mhz = 1755}});
    journal.step({.step = 4, .gpu = {.watts = 300}});
  }
  const std::vector<json> all = events(path);
  REQUIRE(all.size() == 4);
  const size_t fields = all[0].size();
  CHECK(all[1].size() == fields + 1);
  CHECK(all[1]["mfu"] == 0.5);
  CHECK(all[2].size() == fields + 5);
  CHECK(all[2]["gpu_memory_bytes"] == 17179869184);
  CHECK(all[2]["gpu_memory_bytes"].is_number_integer());
  CHECK(all[2]["gpu_process_bytes"] == 8589934592);
  CHECK(all[2]["gpu_watts"] == 412.5);
  CHECK(all[2]["gpu_celsius"] == 61);
  CHECK(all[2]["gpu_sm_mhz"] == 1755);
  CHECK(all[3].size() == fields + 1);
  CHECK(all[3]["gpu_watts"] == 300);
}

TEST_CASE("the GPUs of ranks are summed up as least, median and greatest of those that say so") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log.jsonl";
  const Stragglers stragglers({"a", "a", "b"}, {1, 1, 1});
  {
    Journal journal(path);
    IntervalTimes times{.step = 10, .steps = 10, .of_rank = {{.compute = 1}, {.compute = 3}, {.compute = 2}}};
    journal.ranks(times, stragglers);
    times.gpu_of_rank = {{.watts = 400, .celsius = 50}, {.celsius = 90}, {.celsius = 70}};
    journal.ranks(times, stragglers);
  }
  const std::vector<json> all = events(path);
  REQUIRE(all.size() == 2);
  CHECK(all[1].size() == all[0].size() + 2);
  CHECK(all[1]["gpu_celsius"] == json{50, 70, 90});
  CHECK(all[1]["gpu_watts"] == json{400, 400, 400});
  CHECK(all[1]["slowest"][0]["rank"] == 1);
  CHECK(all[1]["slowest"][0]["gpu_celsius"] == 90);
  CHECK_FALSE(all[1]["slowest"][0].contains("gpu_watts"));
  CHECK(all[1]["slowest"][2]["gpu_watts"] == 400);
  CHECK_FALSE(all[0]["slowest"][0].contains("gpu_celsius"));
}

TEST_CASE("an event is in the file when the call returns") {
  const test::ScratchFolder folder;
  Journal journal(folder / "log.jsonl");
  for (int64_t step = 1; step <= 3; ++step) {
    journal.eval(step, 1.0);
    CHECK(static_cast<int64_t>(events(folder / "log.jsonl").size()) == step);
  }
}

TEST_CASE("each start is another attempt, and keeps what was there") {
  const test::ScratchFolder folder;
  for (int64_t attempt = 1; attempt <= 3; ++attempt) {
    Journal journal(folder / "log.jsonl");
    CHECK(journal.attempt() == attempt);
    journal.end(attempt, 0, 1);
  }
  const std::vector<json> all = events(folder / "log.jsonl");
  REQUIRE(all.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(all[i]["attempt"] == i + 1);
}

TEST_CASE("a line torn anywhere costs that line only") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log.jsonl";
  {
    Journal journal(path);
    journal.eval(1, 1.0);
    journal.eval(2, 1.0);
  }
  const std::string whole = test::bytes_of(path);
  const size_t second = whole.find('\n') + 1;
  for (size_t length = second + 1; length < whole.size(); ++length) {
    CAPTURE(length);
    test::write_bytes(path, whole.substr(0, length));
    Journal journal(path);
    CHECK(journal.attempt() == 2);
    journal.eval(3, 1.0);
    int others = 0;
    const std::vector<json> all = events(path, &others);
    // Without its line break alone the second line is still an event.
    const bool complete = length == whole.size() - 1;
    CHECK(others == (complete ? 0 : 1));
    REQUIRE(all.size() == (complete ? 3U : 2U));
    CHECK(all.front()["step"] == 1);
    CHECK(all.back() == json{{"event", "eval"}, {"attempt", 2}, {"step", 3}, {"val_loss", 1.0}});
  }
}

TEST_CASE("numbers that JSON does not have are null") {
  const test::ScratchFolder folder;
  Journal journal(folder / "log.jsonl");
  journal.eval(1, std::nan(""));
  const std::vector<json> all = events(folder / "log.jsonl");
  REQUIRE(all.size() == 1);
  CHECK(all[0]["val_loss"].is_null());
}

TEST_CASE("a journal that cannot be written is refused by name") {
  const test::ScratchFolder folder;
  const std::string path = folder / "none/log.jsonl";
  try {
    Journal journal(path);
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find(path) != std::string::npos);
  }
}

}  // namespace
}  // namespace gpt
