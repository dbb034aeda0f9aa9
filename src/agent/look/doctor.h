/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen-agent doctor [--clean] [NAME...]`: what the place that it runs in is like, as lines on
 * standard output. It measures, removes what is provably left behind, and judges nothing:
 * thresholds and remedies are the launcher's (launch/doctor/doctor.h). A line is FACT VALUE;
 * numbers are decimal, sizes in bytes. A fact that cannot be found out is left out.
 *
 *      kernel RELEASE MACHINE          libc glibc VERSION | musl | none
 *      cpus N                          that the affinity allows
 *      quota QUOTA PERIOD              of the cgroup, in us
 *      memory LIMIT FREE               of the cgroup or the machine
 *      shm TOTAL FREE                  /dev/shm; 0 0: there is none
 *      memlock N | unlimited           nofile SOFT HARD
 *      caps EFFECTIVE BOUNDING         capabilities, as masks
 *      cma ERRNO SECCOMP YAMA CAP      process_vm_readv between two processes: 0 or why not; the
 *                                      filter's mode, ptrace_scope, 1 with CAP_SYS_PTRACE
 *      disk TOTAL FREE PATH            of the working directory and of /tmp
 *      route NET/PREFIX INTERFACE VIA
 *      rdma NAME STATE                 rdma-devices N     in /dev/infiniband
 *      dapl NAME                       each provider of /etc/dat.conf
 *      ucx 1                           its library is there, which Intel MPI's provider mlx loads
 *      nproc, vmem, fsize N | unlimited   limits of processes, address space, a file's size
 *      gpu N                           device files; gpu-trouble late | failed: nvidia-smi did not
 *                                      end in time, or failed
 *      gpu-name, gpu-state, gpu-topo TEXT   a line of nvidia-smi -L; of index, driver, MIG's mode
 *                                      and uncorrected ECC errors, with commas; of topo -m
 *      gpu-copy I MBPS MBPS            how fast 32 MiB of pinned memory go to GPU I, and from it
 *      gpu-peers N ALL                 pairs of GPUs of which the one can reach the other's memory
 *      gpu-bad I TEXT | gpu-bad - TEXT GPU I cannot be used; all; late: it does not come to its end
 *      gpu-tried N                     all of that is there, of N GPUs; 0 also where this Python
 *                                      cannot call the driver
 *      nccl NAME                       the file that the system's libnccl.so.2 is a link to
 *      peermem 1                       the kernel has nvidia_peermem
 *      resolve NAME ADDRESS | resolve NAME -
 *      mpi PATH TEXT                   the first line of mpirun --version
 *      python PATH VERSION             package NAME VERSION | package NAME ?; also of nccl
 *      no-horovod TEXT                 why that Python cannot import it though it is there
 *      cleaned N                       jobs whose containers and folders a killed program had left
 *                                      here, and which it removed just now
 *      end                             all was looked at
 *
 * Thread rule: main thread of a process of its own; blocks, for each program that it runs at most
 * RG_DOCTOR_PROGRAM_MS, but RG_DOCTOR_GPUS_MS for the one that tries the GPUs.
 */
#ifndef RG_AGENT_LOOK_DOCTOR_H
#define RG_AGENT_LOOK_DOCTOR_H

#define RG_DOCTOR_PROGRAM_MS 8000
#define RG_DOCTOR_GPUS_MS 20000 /* for copies to and from all GPUs */
/* What Python is to try GPUs with, in the environment; without it they are not tried. */
#define RG_DOCTOR_GPUS_SCRIPT "REIGEN_DOCTOR_GPUS"
#define RG_DOCTOR_NAMES_MAX 16
#define RG_DOCTOR_CLEAN "--clean" /* the first argument: and remove what is left behind */

/* names: perhaps RG_DOCTOR_CLEAN, then hosts to resolve, NULL at the end. Returns the exit code. */
int rg_doctor_main(char *const *names);

#endif
