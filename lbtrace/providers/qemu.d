/* QEMU: accel/kvm/trace-events, hw/block/trace-events, and qemu.org/docs/master/devel/tracing.html. */
provider qemu {
	probe kvm_ioctl(int type, void *argument);
	probe kvm_vm_ioctl(int type, void *argument);
	probe kvm_vcpu_ioctl(int cpu, int type, void *argument);
	probe kvm_device_ioctl(int fd, int type, void *argument);
	probe kvm_run_exit(int cpu, uint32_t reason);
	probe kvm_run_exit_system_event(int cpu, uint32_t event);
	probe kvm_cpu_exec();
	probe kvm_io_window_exit();
	probe kvm_interrupt_exit_request();
	probe kvm_init_vcpu(int cpu, unsigned long id);
	probe kvm_create_vcpu(int cpu, unsigned long id, int fd);
	probe kvm_destroy_vcpu(int cpu, unsigned long id);
	probe kvm_irqchip_commit_routes();
	probe kvm_irqchip_add_msi_route(char *device, int vector, int virq);
	probe kvm_irqchip_update_msi_route(int virq);
	probe kvm_irqchip_release_virq(int virq);
	probe kvm_set_ioeventfd_mmio(int fd, uint64_t address, uint32_t value, bool assign, uint32_t size, bool
		match);
	probe kvm_set_ioeventfd_pio(int fd, uint16_t address, uint32_t value, bool assign, uint32_t size, bool match);
	probe kvm_clear_dirty_log(uint32_t slot, uint64_t start, uint32_t size);
	probe kvm_resample_fd_notify(int gsi);
	probe fdc_ioport_read(uint8_t register, uint8_t value);
	probe fdc_ioport_write(uint8_t register, uint8_t value);
	probe virtio_blk_req_complete(void *device, void *request, int status);
	probe virtio_blk_rw_complete(void *device, void *request, int result);
	probe virtio_blk_handle_write(void *device, void *request, uint64_t sector, size_t sectors);
	probe virtio_blk_handle_read(void *device, void *request, uint64_t sector, size_t sectors);
	probe virtio_blk_submit_multireq(void *device, void *requests, int start, int count, uint64_t offset, size_t
		size, bool write);
	probe hd_geometry_lchs_guess(void *device, int cylinders, int heads, int sectors);
	probe hd_geometry_guess(void *device, uint32_t cylinders, uint32_t heads, uint32_t sectors, int translation);
};
