// The C functions of eco_list.h.
#include "ec_offload/eco/include/ecOffload/eco_list.h"

#include <cstdint>
#include <cstdio>
#include <new>

// Who has regions has the verbs; the library itself needs none.
#pragma weak ibv_dereg_mr

namespace {

// The links come first: a link of the list is its entry.
struct Entry : list_head {
  ibv_mr* mr;
};

}  // namespace

void init_eco_list(eco_list* head) { head->next = head->prev = head; }

int eco_list_add(eco_list* head, ibv_mr* mr) {
  if (head == nullptr || mr == nullptr) return -1;
  auto* const entry = new (std::nothrow) Entry;
  if (entry == nullptr) return -1;
  entry->mr = mr;
  entry->prev = head;
  entry->next = head->next;
  head->next->prev = entry;
  head->next = entry;
  return 0;
}

void eco_list_display(eco_list* head) {
  std::printf("eco_list_display [%p] : \n", static_cast<void*>(head));
  for (list_head* link = head->next; link != head; link = link->next) {
    const ibv_mr& mr = *static_cast<Entry*>(link)->mr;
    std::printf("{buffer=%p length=%zu lkey=%u} ", mr.addr, mr.length, mr.lkey);
  }
  std::printf("\n");
}

void eco_list_delete_all(eco_list* head) {
  while (head->next != head) {
    auto* const entry = static_cast<Entry*>(head->next);
    head->next = entry->next;
    entry->next->prev = head;
    if (&ibv_dereg_mr != nullptr) ibv_dereg_mr(entry->mr);
    delete entry;
  }
}

ibv_mr* eco_list_get_mr(eco_list* head, void* arr, size_t block_size) {
  const auto at = reinterpret_cast<std::uintptr_t>(arr);
  for (list_head* link = head->next; link != head; link = link->next) {
    ibv_mr* const mr = static_cast<Entry*>(link)->mr;
    const auto from = reinterpret_cast<std::uintptr_t>(mr->addr);
    // By differences: a sum may pass the end of the address space.
    if (at >= from && block_size <= mr->length && at - from <= mr->length - block_size) return mr;
  }
  return nullptr;
}
