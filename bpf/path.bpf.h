/* The path of an open file. */
#ifndef PROFD_BPF_PATH_BPF_H_
#define PROFD_BPF_PATH_BPF_H_

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define PATH_MAX_NAMES 32
#define PATH_MAX_NAME 256 /* bytes, with the NUL */
#define PATH_ROOM 512 /* a name may begin before this; a power of two */

/* Memory for the names. */
struct path_text {
	char names[PATH_ROOM + PATH_MAX_NAME];
};

struct path_walk {
	struct dentry *dentry;
	struct mount *mount;
	struct path_text *text;
	u32 length;
};

static long add_path_name(u32 index, struct path_walk *walk)
{
	struct dentry *dentry = walk->dentry;
	struct mount *mount = walk->mount;
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	struct mount *above;
	u32 at = walk->length;
	long bytes;

	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		above = BPF_CORE_READ(mount, mnt_parent);
		if (!above || above == mount)
			return 1;
		walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		walk->mount = above;
		return 0;
	}
	if (!parent || parent == dentry || at >= PATH_ROOM)
		return 1;
	at &= PATH_ROOM - 1;
	bytes = bpf_probe_read_kernel_str(&walk->text->names[at], PATH_MAX_NAME,
					  BPF_CORE_READ(dentry, d_name.name));
	if (bytes <= 0)
		return 1;
	walk->length += bytes;
	walk->dentry = parent;
	return 0;
}

/* Writes the names on the path, the last one first, each with its NUL, and returns their length.
 * The path begins at the root of the outermost mount; of a long one the end is there.
 */
static __always_inline u32 read_path(struct file *file, struct path_text *text)
{
	struct vfsmount *mount = BPF_CORE_READ(file, f_path.mnt);
	struct path_walk walk = {.dentry = BPF_CORE_READ(file, f_path.dentry), .text = text};

	if (!mount || !walk.dentry)
		return 0;
	walk.mount = (void *)mount - bpf_core_field_offset(struct mount, mnt);
	bpf_loop(PATH_MAX_NAMES, add_path_name, &walk, 0);
	return walk.length;
}

#endif /* PROFD_BPF_PATH_BPF_H_ */
