// ec_offload/eco/include/ecOffload/eco_list.h — libecoffload: lists of memory regions.
//
// What:      eco_list, and the functions on it as published. Of a program's own regions: those of a
//            context are kept elsewhere, and its mrs_list stays empty unless the program fills it.
// Units:     block_size in bytes.
// Ownership: the caller's: the head, and the regions until eco_list_delete_all deregisters them. A
//            list that is not deleted leaks.
// Threads:   one at a time on a list.
// Errors:    eco_list_add: -1 without memory, or when head or mr is NULL. eco_list_get_mr: NULL
//            when no region of the list holds the whole buffer.
// Source:    Mellanox' libecOffload.
#ifndef RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_LIST_H_
#define RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_LIST_H_

#include <infiniband/verbs.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct list_head {
  struct list_head* next;
  struct list_head* prev;
};
typedef struct list_head eco_list;

// Makes an empty list.
void init_eco_list(eco_list* head);
// The region added last is the first.
int eco_list_add(eco_list* head, struct ibv_mr* mr);
// Prints address, length and key of each to stdout.
void eco_list_display(eco_list* head);
// Deregisters all; the list is empty then.
void eco_list_delete_all(eco_list* head);
// The first region that holds arr and the block_size bytes from there on.
struct ibv_mr* eco_list_get_mr(eco_list* head, void* arr, size_t block_size);

#ifdef __cplusplus
}
#endif

#endif  // RING_EC_OFFLOAD_ECO_INCLUDE_ECOFFLOAD_ECO_LIST_H_
