#include "comm/messages.hpp"

#include "base/error.hpp"

#include <climits>
#include <doctest/doctest.h>
#include <mpi.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

Tensor tensor_of(std::vector<float>& values) { return {values.data(), DType::f32, {std::ssize(values)}}; }

void finish(const Requests& requests, RequestPool& pool) {
  while (!requests.are_done()) pool.progress();
}

}  // namespace

TEST_CASE("a request that MPI leaves null is done") {
  RequestPool pool;
  {
    Requests requests(pool);
    requests.add();
    CHECK_FALSE(requests.are_done());
    pool.progress();
    CHECK(requests.are_done());
  }
  const Messages messages(MPI_COMM_WORLD);
  std::vector<float> sent = {1.0F, 2.0F}, received(2);
  Requests requests(pool), others(pool);
  messages.receive(requests, tensor_of(received), messages.neighbour(-1), 7);
  requests.add();
  others.add();
  messages.send(requests, tensor_of(sent), messages.neighbour(1), 7);
  finish(requests, pool);
  CHECK(others.are_done());
  CHECK(received == sent);
}

TEST_CASE("requests whose owner is gone go on, and those of others are counted") {
  const Messages messages(MPI_COMM_WORLD);
  RequestPool pool;
  std::vector<float> sent = {3.0F}, first(1), second(1);
  {
    Requests forgotten(pool);
    messages.receive(forgotten, tensor_of(first), messages.neighbour(-1), 1);
  }
  Requests requests(pool);
  messages.receive(requests, tensor_of(second), messages.neighbour(-1), 2);
  messages.send(requests, tensor_of(sent), messages.neighbour(1), 1);
  messages.send(requests, tensor_of(sent), messages.neighbour(1), 2);
  finish(requests, pool);
  CHECK(second == sent);
  while (first != sent) pool.progress();
}

TEST_CASE("what fails names the rank at the other end, by its number in the job") {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;  // messages to itself fail where they are sent
  MPI_Comm backwards = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
  {
    const Messages messages(backwards);
    RequestPool pool;
    std::vector<float> sent(3), too_short(2);
    Requests requests(pool);
    messages.receive(requests, tensor_of(too_short), messages.neighbour(-1), 0);
    messages.send(requests, tensor_of(sent), messages.neighbour(1), 0);
    std::string text;
    try {
      finish(requests, pool);
    } catch (const Error& error) {
      text = error.what();
      CHECK(error.code() == ExitCode::rank_failed);
    }
    INFO(text);
    CHECK(text.ends_with("message with rank " + std::to_string((rank + 1) % size)));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Comm_free(&backwards);
}

TEST_CASE("a message that MPI cannot count is refused") {
  const Messages messages(MPI_COMM_SELF);
  RequestPool pool;
  Requests requests(pool);
  std::vector<float> some(1);
  const Tensor huge(some.data(), DType::f32, {int64_t{INT_MAX} / 4 + 1});
  CHECK_THROWS_AS(messages.send(requests, huge, 0, 0), Error);
  CHECK_THROWS_AS(messages.receive(requests, huge, 0, 0), Error);
  CHECK(requests.are_done());
}

}  // namespace gpt
