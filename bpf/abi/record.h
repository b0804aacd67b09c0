/* The types of records in the ring and of iterators. */
#ifndef PROFD_BPF_ABI_RECORD_H_
#define PROFD_BPF_ABI_RECORD_H_

#include "base.h"

enum profd_record_type {
	PROFD_RECORD_THREAD = 1, /* drain of the ledger (seq file) */
	PROFD_RECORD_EXITING = 2, /* thread began to exit, and its last record may come late */
	PROFD_RECORD_DEAD = 3, /* its last account; struct profd_thread_record */
	PROFD_RECORD_STACK = 4, /* struct profd_stack_record */
	PROFD_RECORD_EXEC = 5, /* struct profd_exec_record */
	PROFD_RECORD_MODULE = 6, /* struct profd_module_record */
	PROFD_RECORD_LONG_WAIT = 7, /* struct profd_long_wait_record */
	PROFD_RECORD_HEAP = 8, /* struct profd_heap_record */
	PROFD_RECORD_WATCHED = 9, /* struct profd_watched_record */
	PROFD_RECORD_PAGE = 10, /* struct profd_page_record */
	PROFD_RECORD_LIVE_HEAP = 11, /* struct profd_live_heap_record */
	PROFD_RECORD_TOLD = 12, /* struct profd_told_record */
	PROFD_RECORD_LAST = PROFD_RECORD_TOLD,
};

#endif /* PROFD_BPF_ABI_RECORD_H_ */
