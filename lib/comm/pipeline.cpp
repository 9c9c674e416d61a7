#include "comm/pipeline.hpp"

#include "base/fault.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace gpt {

void run_pipeline(int64_t count, int64_t window, const std::function<Task(int64_t index, int64_t slot)>& make,
                  RequestPool& pool, Queue& queue) {
  std::vector<std::optional<Task>> slots(static_cast<size_t>(std::min(count, window)));
  int64_t begun = 0, ended = 0, idle = 0;
  while (ended < count) {
    bool moved = false;
    pool.progress();
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      std::optional<Task>& task = slots[slot];
      if (!task && begun < count) {
        fault_point("comm.block");
        task.emplace(make(begun++, static_cast<int64_t>(slot)));
      }
      if (!task || !task->advance()) continue;
      moved = true;
      if (!task->is_done()) continue;
      task.reset();
      ++ended;
    }
    if (moved)
      idle = 0;
    else
      queue.pause(idle++);
  }
}

void give_requests(std::function<void(Requests&)> begin, RequestPool& pool, Queue& queue) {
  queue.host([begin = std::move(begin), &pool, &queue] {
    const Turn turn(pool);
    Requests requests(pool);
    fault_point("comm.block");
    begin(requests);
    poll([&] { return requests.are_done(); }, pool, queue);
  });
}

void poll(const std::function<bool()>& condition, RequestPool& pool, Queue& queue) {
  for (int64_t idle = 0;; ++idle) {
    pool.progress();
    if (condition()) return;
    queue.pause(idle);
  }
}

}  // namespace gpt
