/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenPAI's exit codes, and what our command ends with for each. Numbers and names are those of its
 * job-exit-spec (YARN, v0.14) and k8s-job-exit-spec (v1.x); what a program ends with by itself is
 * not in there, and goes through.
 */
#include "base/cleanup.h"
#include "base/exitcode.h"
#include "platform/openpai/server/server_internal.h"

#define ITSELF (-1)
#define OOM (RG_EXIT_SIGNAL + 9) /* the kernel kills what needs more memory than there is */
#define NONE PAI_FAULT_NONE
#define STOP PAI_FAULT_STOPPED
#define USER PAI_FAULT_USER
#define PLAT PAI_FAULT_PLATFORM
#define RES PAI_FAULT_RESOURCES
#define WHO PAI_FAULT_UNKNOWN

static const struct pai_exit exits[] = {
    { 1, 0, "SUCCEEDED", NONE, false, RG_EXIT_OK, "it succeeded" },
    { 1, 130, "CONTAINER_KILLED_BY_SIGINT", PLAT, true, ITSELF, "the container got SIGINT" },
    { 1, 132, "CONTAINER_KILLED_BY_SIGILL", USER, false, ITSELF,
      "the program ran an instruction that this machine lacks (SIGILL)" },
    { 1, 134, "CONTAINER_KILLED_BY_SIGABRT", WHO, true, ITSELF, "the program aborted (SIGABRT)" },
    { 1, 135, "CONTAINER_KILLED_BY_SIGBUS", USER, false, ITSELF,
      "the program got SIGBUS: an address out of order, or no room in /dev/shm" },
    { 1, 136, "CONTAINER_KILLED_BY_SIGFPE", USER, false, ITSELF,
      "the program divided by zero (SIGFPE)" },
    { 1, 137, "CONTAINER_KILLED_BY_SIGKILL", PLAT, true, ITSELF,
      "the container was killed (SIGKILL)" },
    { 1, 139, "CONTAINER_KILLED_BY_SIGSEGV", USER, false, ITSELF,
      "the program used memory that is not its own (SIGSEGV)" },
    { 1, 141, "CONTAINER_KILLED_BY_SIGPIPE", USER, false, ITSELF,
      "the program wrote to a pipe that nobody reads (SIGPIPE)" },
    { 1, 143, "CONTAINER_KILLED_BY_SIGTERM", PLAT, true, ITSELF, "the container got SIGTERM" },
    { 1, 154, "CONTAINER_EXIT_CODE_FILE_LOST", PLAT, true, RG_EXIT_HOST_LOST,
      "the node lost the exit code: it went down, or its disk is broken" },
    { 1, 193, "CONTAINER_DOCKER_RUN_FAILED", PLAT, true, RG_EXIT_CONTAINER, "docker run failed" },
    { 1, 196, "CONTAINER_OOM_KILLED_BY_DOCKER", USER, false, OOM,
      "a task used more memory than it had asked for" },
    { 1, 198, "CONTAINER_OOD_KILLED_BY_DISKCLEANER", USER, false, OOM,
      "a task filled the disk of its node" },
    { 1, 255, "CONTAINER_RUNTIME_UNKNOWN_FAILURE", WHO, true, 1,
      "the program failed, for a reason that OpenPAI does not know" },
    { 1, 256, "CONTAINER_RUNTIME_EXIT_ABNORMALLY", PLAT, true, RG_EXIT_HOST_LOST,
      "OpenPAI's own runtime failed in the container" },
    { 1, -7100, "CONTAINER_INVALID_EXIT_STATUS", PLAT, true, RG_EXIT_HOST_LOST,
      "the node could not prepare the container" },
    { 1, -7101, "CONTAINER_NOT_AVAILABLE_EXIT_STATUS", PLAT, true, RG_EXIT_HOST_LOST,
      "the node could not start the container's process" },
    { 1, -7102, "CONTAINER_NODE_DISKS_FAILED", PLAT, true, RG_EXIT_HOST_LOST,
      "the node's disks are full or broken" },
    { 1, -7103, "CONTAINER_PORT_CONFLICT", PLAT, true, RG_EXIT_UNAVAILABLE,
      "a port that the task has asked for is in use on its node" },
    { 1, -7110, "CONTAINER_ABORTED", PLAT, true, RG_EXIT_HOST_LOST, "YARN gave the container up" },
    { 1, -7111, "CONTAINER_NODE_LOST", PLAT, true, RG_EXIT_HOST_LOST, "the node was lost" },
    { 1, -7112, "CONTAINER_EXPIRED", RES, true, RG_EXIT_UNAVAILABLE,
      "not all containers were free in time" },
    { 1, -7113, "CONTAINER_ABORTED_ON_AM_RESTART", RES, true, RG_EXIT_UNAVAILABLE,
      "not all containers were free before the job's master began again" },
    { 1, -7120, "CONTAINER_PREEMPTED", PLAT, true, RG_EXIT_PREEMPTED,
      "it was preempted: its virtual cluster used more than its share" },
    { 1, -7121, "CONTAINER_RUNTIME_VIRTUAL_MEMORY_EXCEEDED", PLAT, false, OOM,
      "OpenPAI's runtime used more virtual memory than the task had asked for" },
    { 1, -7122, "CONTAINER_RUNTIME_PHYSICAL_MEMORY_EXCEEDED", PLAT, false, OOM,
      "OpenPAI's runtime used more memory than the task had asked for" },
    { 1, -7123, "CONTAINER_KILLED_BY_AM", PLAT, true, RG_EXIT_HOST_LOST,
      "the job's master rejected the container" },
    { 1, -7124, "CONTAINER_KILLED_BY_RM", PLAT, true, RG_EXIT_HOST_LOST,
      "YARN killed the container" },
    { 1, -7125, "CONTAINER_KILLED_ON_APP_COMPLETION", PLAT, true, RG_EXIT_PREEMPTED,
      "YARN ended the container since its job was over" },
    { 1, -7126, "CONTAINER_EXTERNAL_UTILIZATION_SPIKED", PLAT, true, RG_EXIT_HOST_LOST,
      "other processes needed the node's memory" },
    { 1, -7150, "CONTAINER_NM_LAUNCH_FAILED", PLAT, true, RG_EXIT_HOST_LOST,
      "the node could not start the container" },
    { 1, -7151, "CONTAINER_RM_RESYNC_LOST", PLAT, true, RG_EXIT_HOST_LOST,
      "YARN lost the container" },
    { 1, -7152, "CONTAINER_RM_RESYNC_EXCEEDED", PLAT, false, RG_EXIT_HOST_LOST,
      "YARN had one container too many" },
    { 1, -7153, "CONTAINER_MIGRATE_TASK_REQUESTED", USER, true, RG_EXIT_PREEMPTED,
      "somebody asked to move the task" },
    { 1, -7154, "CONTAINER_AGENT_EXPIRED", PLAT, true, RG_EXIT_HOST_LOST,
      "nothing was heard from the node for too long" },
    { 1, -7200, "AM_RM_HEARTBEAT_YARN_EXCEPTION", USER, false, RG_EXIT_USAGE,
      "YARN does not take such a job: a node label that is not there, for one" },
    { 1, -7201, "AM_RM_HEARTBEAT_IO_EXCEPTION", PLAT, true, RG_EXIT_HOST_LOST,
      "the job's master could not reach YARN" },
    { 1, -7202, "AM_RM_HEARTBEAT_UNKNOWN_EXCEPTION", PLAT, true, RG_EXIT_HOST_LOST,
      "the job's master and YARN did not understand each other" },
    { 1, -7203, "AM_RM_HEARTBEAT_SHUTDOWN_REQUESTED", PLAT, true, RG_EXIT_HOST_LOST,
      "YARN told the job's master to end" },
    { 1, -7250, "AM_UNKNOWN_EXCEPTION", PLAT, true, RG_EXIT_HOST_LOST, "the job's master failed" },
    { 1, -7251, "AM_NON_TRANSIENT_EXCEPTION", USER, false, RG_EXIT_USAGE,
      "the job cannot be run as it is: a dataDir that is not there, for one" },
    { 1, -7252, "AM_GANG_ALLOCATION_TIMEOUT", RES, true, RG_EXIT_UNAVAILABLE,
      "what the job asks for was not free at once, in time" },
    { 1, -7300, "APP_SUBMISSION_YARN_EXCEPTION", USER, false, RG_EXIT_USAGE,
      "YARN does not take such a job: a virtual cluster that is not there, for one" },
    { 1, -7301, "APP_SUBMISSION_IO_EXCEPTION", PLAT, true, RG_EXIT_UNAVAILABLE,
      "OpenPAI could not reach YARN" },
    { 1, -7302, "APP_SUBMISSION_UNKNOWN_EXCEPTION", WHO, true, RG_EXIT_UNAVAILABLE,
      "OpenPAI could not give the job to YARN" },
    { 1, -7303, "APP_KILLED_UNEXPECTEDLY", PLAT, true, RG_EXIT_PREEMPTED,
      "somebody killed the job in YARN" },
    { 1, -7350, "APP_RM_RESYNC_LOST", PLAT, true, RG_EXIT_HOST_LOST, "YARN lost the job" },
    { 1, -7351, "APP_STOP_FRAMEWORK_REQUESTED", STOP, false, RG_EXIT_PREEMPTED,
      "somebody stopped the job" },
    { 1, -7352, "APP_AM_DIAGNOSTICS_LOST", PLAT, true, RG_EXIT_HOST_LOST,
      "YARN lost how the job ended" },
    { 1, -7353, "APP_AM_DIAGNOSTICS_DESERIALIZATION_FAILED", PLAT, true, RG_EXIT_HOST_LOST,
      "how the job ended cannot be read" },
    { 1, -7400, "TASK_STOPPED_ON_APP_COMPLETION", STOP, false, RG_EXIT_PREEMPTED,
      "the task was stopped since its job was over" },
    { 1, -8000, "CONTAINER_UNKNOWN_YARN_EXIT_STATUS", WHO, true, RG_EXIT_HOST_LOST,
      "YARN ended the container for a reason that OpenPAI does not know" },

    { 2, 0, "Succeeded", NONE, false, RG_EXIT_OK, "it succeeded" },
    { 2, 130, "ContainerSigIntReceived", PLAT, true, ITSELF, "the container got SIGINT" },
    { 2, 131, "ContainerSigQuitReceived", PLAT, true, ITSELF, "the container got SIGQUIT" },
    { 2, 132, "ContainerSigIllReceived", USER, false, ITSELF,
      "the program ran an instruction that this machine lacks (SIGILL)" },
    { 2, 134, "ContainerSigAbrtReceived", WHO, true, ITSELF, "the program aborted (SIGABRT)" },
    { 2, 135, "ContainerSigBusReceived", USER, false, ITSELF,
      "the program got SIGBUS: an address out of order, or no room in /dev/shm" },
    { 2, 136, "ContainerSigFpeReceived", USER, false, ITSELF,
      "the program divided by zero (SIGFPE)" },
    { 2, 137, "ContainerSigKillReceived", PLAT, true, ITSELF,
      "the container was killed (SIGKILL)" },
    { 2, 139, "ContainerSigSegvReceived", USER, false, ITSELF,
      "the program used memory that is not its own (SIGSEGV)" },
    { 2, 141, "ContainerSigPipeReceived", USER, false, ITSELF,
      "the program wrote to a pipe that nobody reads (SIGPIPE)" },
    { 2, 143, "ContainerSigTermReceived", PLAT, true, ITSELF, "the container got SIGTERM" },
    { 2, 220, "UserCommandExitWithError", USER, false, RG_EXIT_NOT_FOUND,
      "a command of the job was not found in the image" },
    { 2, 221, "ContainerTensorflowOOMKilled", USER, false, ITSELF, "TensorFlow ran out of memory" },
    { 2, 222, "ContainerMPISegvFault", USER, false, ITSELF,
      "an MPI program used memory that is not its own" },
    { 2, 223, "ContainerCudaUncorrectableECCError", PLAT, true, RG_EXIT_HOST_LOST,
      "a GPU's memory is broken (ECC)" },
    { 2, 224, "ContainerCudaVersionMismatch", USER, false, ITSELF,
      "the image's CUDA is newer than the node's driver" },
    { 2, 225, "ContainerCudaDnnVersionMismatch", USER, false, ITSELF,
      "the image's cuDNN is too old for its framework" },
    { 2, 226, "ContainerCudaOOMKilled", USER, false, ITSELF, "a GPU ran out of memory" },
    { 2, 227, "ContainerEngineCoreDump", USER, false, ITSELF, "the program dumped core" },
    { 2, 228, "ContainerIncorrectParameterError", USER, false, ITSELF,
      "the program got a parameter that it does not know" },
    { 2, 229, "ContainerIncorrectDataModelError", USER, false, ITSELF,
      "the program's data is missing, or not as it expects" },
    { 2, 230, "ContainerInvalidSavePath", USER, false, ITSELF, "the path to save to is no good" },
    { 2, 231, "ContainerSyntaxError", USER, false, ITSELF,
      "the program has a mistake in its text" },
    { 2, 232, "ContainerImportError", USER, false, ITSELF, "a Python package is not in the image" },
    { 2, 233, "ContainerIndexOutOfRange", USER, false, ITSELF,
      "the program used an index that is out of range" },
    { 2, 234, "ContainerSigvFault", USER, false, ITSELF,
      "the program used memory that is not its own" },
    { 2, 249, "PAIRuntimeSSHBarrierTimeout", PLAT, false, RG_EXIT_TIMEOUT,
      "not all tasks answered by ssh in time" },
    { 2, 250, "FrameworkBarrierTransientFailed", PLAT, true, RG_EXIT_UNAVAILABLE,
      "a task could not wait for the others, for now" },
    { 2, 251, "JobGangAllocationTimeout", RES, true, RG_EXIT_UNAVAILABLE,
      "what the job asks for was not free at once, in time" },
    { 2, 252, "FrameworkBarrierPermanentFailed", PLAT, false, RG_EXIT_UNAVAILABLE,
      "a task could not wait for the others" },
    { 2, 253, "ContainerPortConflict", PLAT, true, RG_EXIT_UNAVAILABLE,
      "a port that the task has asked for is in use on its node" },
    { 2, 254, "ContainerImageNotExists", USER, false, RG_EXIT_CONTAINER,
      "the image is not there, or may not be pulled" },
    { 2, 255, "PAIRuntimeUnknownFailed", WHO, true, 1,
      "the program failed, for a reason that OpenPAI does not know" },
    { 2, 256, "PAIRuntimeExitAbnormally", PLAT, true, RG_EXIT_HOST_LOST,
      "OpenPAI's own runtime failed in the container" },
    { 2, -100, "ConfigMapExternalDeleted", PLAT, true, RG_EXIT_HOST_LOST,
      "somebody deleted the job's ConfigMap" },
    { 2, -101, "PodExternalDeleted", PLAT, true, RG_EXIT_HOST_LOST,
      "somebody deleted a pod of the job" },
    { 2, -110, "ConfigMapCreationTimeout", PLAT, true, RG_EXIT_UNAVAILABLE,
      "Kubernetes did not make the job's ConfigMap in time" },
    { 2, -111, "PodCreationTimeout", PLAT, true, RG_EXIT_UNAVAILABLE,
      "Kubernetes did not make a pod in time" },
    { 2, -200, "PodSpecPermanentError", USER, false, RG_EXIT_USAGE,
      "Kubernetes does not take such a pod" },
    { 2, -210, "StopFrameworkRequested", STOP, false, RG_EXIT_PREEMPTED,
      "somebody stopped the job" },
    { 2, -220, "FrameworkAttemptCompletion", STOP, false, RG_EXIT_PREEMPTED,
      "the task was stopped since its job was over" },
    { 2, -300, "PodFailedWithoutFailedContainer", WHO, true, RG_EXIT_HOST_LOST,
      "a pod failed, and none of its containers" },
    { 2, -1000, "PodEvicted", PLAT, true, RG_EXIT_PREEMPTED,
      "a pod was evicted: its node was short of something" },
    { 2, -1001, "PodNodeLost", PLAT, true, RG_EXIT_HOST_LOST, "the node was lost" },
    { 2, -1002, "PodScheduledToInsufficientResourceNode", PLAT, true, RG_EXIT_UNAVAILABLE,
      "a node had less than the task asks for" },
    { 2, -1003, "PodPreemptedForCriticalPod", PLAT, true, RG_EXIT_PREEMPTED,
      "it was preempted for a pod of the platform" },
    { 2, -1004, "PodDeadlineExceeded", STOP, false, RG_EXIT_PREEMPTED,
      "a pod ran for longer than it may" },
    { 2, -1005, "PodNodeAdmissionForbidden", USER, false, RG_EXIT_USAGE,
      "a node does not take such a pod" },
    { 2, -1006, "PodNodeAdmissionUnexpectedError", PLAT, true, RG_EXIT_HOST_LOST,
      "a node rejected a pod, for a reason of its own" },
    { 2, -1200, "UserContainerDockerOOMKilled", USER, false, OOM,
      "a task used more memory than it had asked for" },
    { 2, -1201, "ContainerDockerCreationError", WHO, true, RG_EXIT_CONTAINER,
      "the container could not be made" },
    { 2, -1202, "ContainerDockerStartCmdPermissionDenied", PLAT, false, RG_EXIT_CONTAINER,
      "the container's first program may not be run" },
    { 2, -1203, "ContainerDockerStartCmdNotFound", PLAT, false, RG_EXIT_CONTAINER,
      "the container's first program was not found" },
    { 2, -1204, "ContainerDockerStartUnknownError", WHO, true, RG_EXIT_CONTAINER,
      "the container could not be started" },
    { 2, -1300, "InitContainerDockerOOMKilled", PLAT, true, OOM,
      "OpenPAI's runtime needed more memory than the task had asked for" },
    { 2, -8000, "ContainerUndefinedNegativeExitCode", WHO, true, RG_EXIT_HOST_LOST,
      "the container ended for a reason that OpenPAI does not know" },
};

const struct pai_exit *pai_exit_table(size_t *ret_count)
{
    *ret_count = rg_array_len(exits);
    return exits;
}

const struct pai_exit *pai_exit_find(int version, int code)
{
    for (size_t i = 0; i < rg_array_len(exits); i++) {
        if (exits[i].version == version && exits[i].code == code)
            return &exits[i];
    }
    return NULL;
}

int pai_exit_code(int version, int code)
{
    const struct pai_exit *found = pai_exit_find(version, code);

    if (found && found->exit_code != ITSELF)
        return found->exit_code;
    if (code < 0 || code > 255) /* the platform's, of which there is no name */
        return RG_EXIT_HOST_LOST;
    return code;
}

/* Whether a task ended by itself, and not well. */
static bool has_failed(const struct pai_task *task)
{
    return task->state == PAI_FAILED && task->has_exit && task->exit_code;
}

int pai_job_exit(int version, const struct pai_job *job)
{
    int code = job->has_exit ? job->exit_code : 0;

    if (job->state == PAI_SUCCEEDED)
        return RG_EXIT_OK;
    if (job->state == PAI_STOPPED)
        return RG_EXIT_PREEMPTED;
    if (job->state != PAI_FAILED)
        return RG_EXIT_HOST_LOST;
    for (size_t i = 0; i < job->ntasks && !code; i++)
        code = has_failed(&job->tasks[i]) ? job->tasks[i].exit_code : 0;
    return code ? pai_exit_code(version, code) : 1;
}
