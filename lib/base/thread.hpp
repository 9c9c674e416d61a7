#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace gpt {

/// @param job  what the thread is for: "reading ahead"
/// @throws Error(failed) that names job, reason and the limits that it may have met
[[noreturn]] void refuse_thread(std::string_view job, const std::system_error& reason);

/// A thread that runs `work`, which may take a std::stop_token. @throws Error as above where there is none to
/// be had
template <class Work>
std::jthread start_thread(std::string_view job, Work&& work) {
  try {
    return std::jthread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    refuse_thread(job, error);
  }
}

/// Whether so many threads can be had at once, tried: to be asked before a library starts them that ends the
/// program where it gets none. @throws Error as above
void require_threads(std::string_view job, int threads);

}  // namespace gpt
