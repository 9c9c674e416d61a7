#include "comm/pipeline.hpp"

#include "base/error.hpp"
#include "device/device.hpp"

#include <doctest/doctest.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

struct Fixture {
  std::unique_ptr<Device> device = make_cpu_device(1);
  std::unique_ptr<Queue> queue = device->make_queue();
  std::vector<int64_t> begun, ended;
  std::set<int64_t> slots;
  RequestPool pool;
  int64_t polls = 0;

  // Inner and outer task each wait for a number of polls.
  Task inner(int64_t polls_to_wait) {
    co_await until([this, due = polls + polls_to_wait] { return ++polls >= due; });
  }
  Task outer(int64_t index, int64_t slot, int64_t polls_to_wait) {
    begun.push_back(index);
    CHECK(slots.insert(slot).second);
    co_await inner(polls_to_wait);
    co_await inner(1);
    slots.erase(slot);
    ended.push_back(index);
  }
  Task failing(int64_t polls_to_wait) {
    co_await inner(polls_to_wait);
    throw Error("lost", ExitCode::rank_failed);
  }
  Task outer_of_failing(int64_t polls_to_wait) { co_await failing(polls_to_wait); }
  Task catching(int64_t polls_to_wait, std::string& caught) {
    try {
      co_await outer_of_failing(polls_to_wait);
    } catch (const Error& error) {
      caught = error.what();
    }
    co_await inner(1);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "tasks begin in order, end in any, and never share a slot") {
  run_pipeline(
      20, 3, [&](int64_t index, int64_t slot) { return outer(index, slot, index % 3 == 0 ? 50 : 1); }, pool,
      *queue);
  REQUIRE(begun.size() == 20);
  for (int64_t i = 0; i < 20; ++i) CHECK(begun[static_cast<size_t>(i)] == i);
  CHECK(ended.size() == 20);
  CHECK(ended.front() != 0);
  CHECK(slots.empty());
  run_pipeline(
      0, 3, [&](int64_t, int64_t) { return inner(1); }, pool, *queue);
}

TEST_CASE_FIXTURE(Fixture, "what an inner task throws comes out of the pipeline") {
  CHECK_THROWS_AS(run_pipeline(
                      3, 2, [&](int64_t index, int64_t) { return outer_of_failing(index); }, pool, *queue),
                  Error);
}

TEST_CASE_FIXTURE(Fixture, "a task that waits for another may catch what that one throws, and go on") {
  std::string caught;
  int64_t made = 0;
  const auto make = [&](int64_t, int64_t) {
    ++made;
    return catching(3, caught);
  };
  run_pipeline(2, 1, make, pool, *queue);
  CHECK(caught == "lost");
  CHECK(made == 2);
}

TEST_CASE_FIXTURE(Fixture, "an operation does not begin while another thread's is under way") {
  bool refused = false, done = false;
  const auto begin_another = [&] {
    try {
      give_requests([](Requests&) {}, pool, *queue);
    } catch (const Error&) {
      refused = true;
    }
  };
  give_requests([&](Requests&) { std::thread(begin_another).join(); }, pool, *queue);
  CHECK(refused);
  give_requests([&](Requests&) { done = true; }, pool, *queue);
  CHECK(done);
}

TEST_CASE("a failed communication is thrown where somebody waits for it, and what follows is dropped") {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_communication_queue();
  const auto event = device->make_event();
  bool later = false;
  queue->host([] { throw Error("lost", ExitCode::rank_failed); });
  queue->host([&] { later = true; });
  queue->record(*event);
  CHECK_THROWS_AS(event->synchronize(), Error);
  CHECK_THROWS_AS(queue->synchronize(), Error);
  CHECK_FALSE(later);
}

TEST_CASE("two queues wait for each other's events, work runs in order") {
  const auto device = make_cpu_device(1);
  const auto compute = device->make_queue(), communication = device->make_communication_queue();
  const auto ready = device->make_event(), done = device->make_event();
  int64_t value = 0;
  for (int round = 0; round < 200; ++round) {
    value = round;
    compute->record(*ready);
    communication->wait(*ready);
    communication->host([&] { value *= 2; });
    communication->host([&] { value += 1; });
    communication->record(*done);
    compute->wait(*done);
    CHECK(value == 2 * round + 1);
  }
}

TEST_CASE("a queue that is given up because of a failure ends a task that polls for ever") {
  const auto device = make_cpu_device(1);
  const auto fail = [&] {
    RequestPool pool;
    const auto queue = device->make_communication_queue();
    queue->host([&] { poll([] { return false; }, pool, *queue); });
    throw Error("this rank failed");
  };
  CHECK_THROWS_AS(fail(), Error);
}

}  // namespace gpt
