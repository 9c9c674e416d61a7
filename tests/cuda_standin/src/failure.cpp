#include "failure.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace standin {
namespace {

void print_and_abort(const std::string& problem) {
  std::fprintf(stderr, "CUDA stand-in: %s\n", problem.c_str());
  std::fflush(stderr);
  std::abort();
}

std::atomic<FailureHandler> current_handler = print_and_abort;

}  // namespace

void set_failure_handler(FailureHandler handler) { current_handler = handler ? handler : print_and_abort; }

void fail(const std::string& problem) {
  current_handler.load()(problem);
  std::abort();
}

}  // namespace standin
