"""Codes of directories, disks and vaults."""

from leasehold.error_codes import ErrorCode
from leasehold.error_guide.entry import CHECK_FAILED, REFUSED, UNKNOWN, GuideEntry

DIRECTORIES = {
    ErrorCode.BAD_DIRECTORY: GuideEntry("a data directory can't be used", "check the cause that the message names"),
    ErrorCode.CORRUPT: GuideEntry(
        "stored bytes are damaged",
        "restore the file or directory that the message names, or run `leasehold node reset`",
        REFUSED + CHECK_FAILED,
    ),
    ErrorCode.DISK: GuideEntry(
        "the disk of a vault failed or is full",
        "check the disk's space, health and mode, then start the node again",
        REFUSED + UNKNOWN,
    ),
    ErrorCode.DISK_ERROR: GuideEntry(
        "a file can't be read or written", "check the disk and the permissions of the path"
    ),
    ErrorCode.DISK_FULL: GuideEntry("no space is left on a disk", "free space on that disk, then try again"),
    ErrorCode.LOCKED: GuideEntry("another process uses the directory or vault", "stop that process first"),
    ErrorCode.NEWER_VERSION: GuideEntry(
        "the directory was written by a newer version of Leasehold",
        "install that newer version",
    ),
    ErrorCode.NOT_SET_ASIDE: GuideEntry(
        "the files that `leasehold node adopt` replaces could not be moved, and nothing was adopted",
        "check the disk and the permissions, then run the command again",
    ),
    ErrorCode.NO_ACCESS: GuideEntry("a directory or file can't be opened", "check its owner and mode"),
    ErrorCode.NO_CLUSTER: GuideEntry("the directory holds no cluster", "start one with `leasehold up --dir DIR`"),
    ErrorCode.NO_IDENTITY: GuideEntry("the vault holds no node id", "start the directory as a new node"),
    ErrorCode.NO_META_STORAGE: GuideEntry(
        "the directory holds no meta storage",
        "name the coordinator's directory, or restore a backup of it",
    ),
    ErrorCode.NO_NODE: GuideEntry("the directory holds no node", "name the directory of one node with --dir"),
    ErrorCode.NO_SEGMENT: GuideEntry(
        "no segment has this id",
        "give the name of the segment's file without .parquet",
    ),
    ErrorCode.NO_VAULT: GuideEntry(
        "the directory holds no vault, though it may hold other files of a node",
        "restore the vault, or choose another --dir",
    ),
    ErrorCode.OLDER_VERSION: GuideEntry(
        "the vault was written by an older version of Leasehold that this version can't read",
        "start the node with that older version, or run `leasehold node reset`",
    ),
    ErrorCode.OS_ERROR: GuideEntry(
        "the operating system refused access to a file, a disk or another resource",
        "check the path, its permissions, the disk and the limits of the process",
        CHECK_FAILED,
    ),
    ErrorCode.OTHER_DISK: GuideEntry(
        "two folders that files move between are on different mounts",
        "mount the disk at the node's directory itself",
    ),
    ErrorCode.RESET_UNFINISHED: GuideEntry(
        "a reset of the directory was interrupted or failed",
        "run `leasehold node reset --dir DIR` again",
    ),
    ErrorCode.SERVE_RECORD_TOO_LARGE: GuideEntry(
        "a record of the serve log is too large", "choose a shorter request id"
    ),
    ErrorCode.STORAGE_FAILED: GuideEntry(
        "a commit to the meta storage failed, and it may or may not have happened",
        "check the disk, restart the coordinator, then look whether the change was made",
        UNKNOWN,
    ),
    ErrorCode.TOO_MANY_REPAIRS: GuideEntry(
        "the directory holds as many repair folders as it can have",
        "delete the repair folders once the node serves again",
    ),
    ErrorCode.TOO_MANY_RESETS: GuideEntry(
        "the directory holds as many reset folders as it can have",
        "delete the reset folders that nobody needs",
    ),
    ErrorCode.WRITABLE_BY_OTHERS: GuideEntry(
        "other users may write to the directory",
        "take that right away with `chmod go-w DIR`, or choose another --dir",
    ),
}
